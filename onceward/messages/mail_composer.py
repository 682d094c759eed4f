"""Compose the mail of a letter, and give it the id that follows from its key."""

from __future__ import annotations

from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from typing import Any

from onceward.messages.channel import Letter
from onceward.messages.mail import mail_bytes, new_mail
from onceward.messages.plain_mail import PlainMail


def compose(letter: Letter, sender: str, *, to: str | None = None) -> EmailMessage | PlainMail:
    """Return the mail with its text and HTML bodies, the headers for one-click unsubscribing, and its attachments.

    `to` is the address as it is sent, if it differs from that of the letter (`mail_address.wire_address`).
    """
    to = to or letter.to
    headers = (
        ("From", sender),
        ("To", to),
        ("Subject", letter.rendered.subject),
        ("Auto-Submitted", "auto-generated"),
        *unsubscribe_headers(letter).items(),
    )
    if not letter.attachments:
        return PlainMail(headers, letter.rendered.text, letter.rendered.html)
    message = new_mail(utf8=not to.isascii())
    for name, value in headers:
        message[name] = value
    message.set_content(letter.rendered.text)
    message.add_alternative(letter.rendered.html, subtype="html")
    body: Any = message
    [_, html] = body.iter_parts()
    for each in letter.attachments:
        main, _, sub = each.content_type.partition("/")
        if each.inline is not None:
            html.add_related(each.content, main, sub, cid=f"<{each.inline}>", filename=each.name, disposition="inline")
    for each in letter.attachments:
        main, _, sub = each.content_type.partition("/")
        if each.inline is None:
            message.add_attachment(each.content, main, sub, filename=each.name)
    return message


def unsubscribe_headers(letter: Letter) -> dict[str, str]:
    """Return the headers of RFC 8058. A POST unsubscribes; a GET, for example by a link scanner, only shows a page."""
    if letter.unsubscribe_url is None:
        return {}
    return {
        "List-Unsubscribe": f"<{letter.unsubscribe_url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def message_id(key: str, *, domain: str) -> str:
    """Return a Message-ID that depends only on the key and the domain."""
    return f"<{sha256(key.encode()).hexdigest()[:40]}@{domain}>"


def stamped(message: EmailMessage | PlainMail, *, key: str, sender: str) -> tuple[str, bytes]:
    """Return the Message-ID that follows from the key, and the mail with this id and the present date.

    An `EmailMessage` keeps the date that it has.
    """
    id = message_id(key, domain=sender.rpartition("@")[2] or "localhost")
    if isinstance(message, PlainMail):
        return id, message.as_bytes(message_id=id, date=formatdate(usegmt=True))
    del message["Message-ID"]
    message["Message-ID"] = id
    if "Date" not in message:
        message["Date"] = formatdate(usegmt=True)
    return id, mail_bytes(message)
