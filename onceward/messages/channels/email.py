"""E-mail through an SMTP relay or Brevo, or into a folder if neither is configured."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AbstractAsyncContextManager, nullcontext
from email.message import EmailMessage
from email.utils import formataddr, parseaddr
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onceward.messages.channel import Letter
from onceward.private_files import private_folder, write_private
from onceward.providers.outbound import Absent, Accepted, Lookup, Outcome, Unreachable
from onceward.providers.outbound.brevo import Brevo, Mailbox
from onceward.providers.outbound.mail import new_mail
from onceward.providers.outbound.plain_mail import PlainMail

if TYPE_CHECKING:
    from onceward.providers.outbound.smtp import Smtp

BREVO_KEY_S = 600.0
"""Brevo does not document how long it remembers a key. Its keys are meant for repeats within minutes."""


def compose(letter: Letter, sender: str) -> EmailMessage | PlainMail:
    """Return the mail with its text and HTML bodies, the headers for one-click unsubscribing, and its attachments."""
    headers = (
        ("From", sender),
        ("To", letter.to),
        ("Subject", letter.rendered.subject),
        ("Auto-Submitted", "auto-generated"),
        *unsubscribe_headers(letter).items(),
    )
    if not letter.attachments:
        return PlainMail(headers, letter.rendered.text, letter.rendered.html)
    message = new_mail()
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


class SmtpChannel:
    """Sends through an SMTP relay. SMTP has no idempotency keys, so the outcome of an unanswered send is unknown."""

    name: Literal["email"] = "email"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, smtp: Smtp, *, sender: str) -> None:
        self._smtp = smtp
        self._from = sender
        self.sender = parseaddr(sender)[1]

    def turn(self) -> AbstractAsyncContextManager[Outcome | None]:
        return self._smtp.turn()

    async def send(self, letter: Letter) -> Outcome:
        message = compose(letter, self._from)
        return await self._smtp.send(message, key=letter.key, sender=self.sender, to=letter.to)

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("SMTP cannot look up a mail that was sent")

    async def aclose(self) -> None:
        await self._smtp.aclose()


class BrevoChannel:
    """Sends through the API of Brevo, which ignores a repeated key."""

    name: Literal["email"] = "email"
    repeatable_for_s = BREVO_KEY_S
    readable = False

    def __init__(self, brevo: Brevo, *, sender: str) -> None:
        self._brevo = brevo
        name, self.sender = parseaddr(sender)
        self._from = Mailbox(self.sender, name or None)

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> Outcome:
        return await self._brevo.send_email(
            key=letter.key,
            sender=self._from,
            to=[Mailbox(letter.to)],
            subject=letter.rendered.subject,
            html=letter.rendered.html,
            text=letter.rendered.text,
            headers=unsubscribe_headers(letter) or None,
            tags=(letter.template.name,),
            attachments=[
                {"name": each.name, "content": base64.b64encode(each.content).decode()} for each in letter.attachments
            ],
        )

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("a send over Brevo is repeated with the same key instead of looked up")

    async def aclose(self) -> None: ...


class FolderChannel:
    """Writes mails to files, for development: one file per key, so a repeated send changes nothing."""

    name: Literal["email"] = "email"
    repeatable_for_s = float("inf")
    readable = True

    def __init__(self, folder: Path, *, sender: str) -> None:
        self._folder = folder
        self._from = sender
        self.sender = parseaddr(sender)[1]

    def _path(self, letter: Letter) -> Path:
        return self._folder / f"{sha256(letter.key.encode()).hexdigest()[:32]}.eml"

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> Outcome:
        message = compose(letter, formataddr(parseaddr(self._from)))
        from onceward.providers.outbound.smtp import stamped

        _, content = stamped(message, key=letter.key, sender=self.sender)
        path = self._path(letter)

        def write() -> None:
            private_folder(self._folder)
            write_private(path, content)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            return Unreachable(f"the mail folder {self._folder} is not writable ({error.__class__.__name__})")
        return Accepted(path.name)

    async def look_up(self, letter: Letter) -> Lookup:
        path = self._path(letter)
        return Accepted(path.name) if await asyncio.to_thread(path.exists) else Absent()

    async def aclose(self) -> None: ...
