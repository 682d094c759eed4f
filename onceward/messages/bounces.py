"""Read mails that report about mails: delivery status notifications (RFC 3464) and complaints (ARF, RFC 5965).

A report names its message by the envelope sender (VERP), which carries a code of ours. A report that names none of our
messages changes nothing: anybody can send a mail to a bounce address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from typing import Any, Literal, cast

from onceward.db import Transaction
from onceward.messages.delivery import report_delivery
from onceward.messages.mail_address import message_of_bounce
from onceward.messages.suppression import suppress_recipient_of
from onceward.work import MessageHook

Kind = Literal["failed", "delayed", "delivered", "complaint"]
STATUS = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")
NO_MAILBOX = frozenset({"5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})
"""No mailbox, domain or route with this name, or a disabled mailbox: no later mail can arrive. Others, such as a full
mailbox (5.2.2) or a policy (5.7.1), say nothing about the next mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailReport:
    """What a mail says about one of our mails."""

    kind: Kind
    message: int
    """The id of our message, proven by its code."""
    status: str | None = None
    """The enhanced status code, such as 5.1.1."""

    @property
    def suppresses(self) -> str | None:
        """Return why no further mail may go to the recipient, or None."""
        if self.kind == "complaint":
            return "complaint"
        return "bounce" if self.kind == "failed" and self.status in NO_MAILBOX else None


def is_permanent(status: str) -> bool:
    """Return whether an enhanced status code says that no later mail to the address can arrive."""
    return status in NO_MAILBOX


def read_report(
    content: bytes, *, return_path: str, secrets: Sequence[bytes], envelope_to: str | None = None
) -> MailReport | None:
    """Return what the mail reports about a message of ours, or None if it is another mail.

    `envelope_to` is the address that the mail was delivered to, if the mail server passes it on.
    """
    mail: Any = message_from_bytes(content, policy=policy.default)
    named = [envelope_to or "", *_texts(mail, "to", "delivered-to", "x-original-to")]
    parts: list[Any] = list(mail.walk())
    for part in parts:
        if part.get_content_type() in ("message/rfc822", "text/rfc822-headers"):
            named += _original(part)
    message = next((id for each in named if (id := message_of_bounce(each, return_path, secrets)) is not None), None)
    if message is None:
        return None
    for part in parts:
        match part.get_content_type():
            case "message/delivery-status":
                return _delivery_status(part, message)
            case "message/feedback-report":
                return MailReport(kind="complaint", message=message)
            case _:
                continue
    return None


def _texts(part: Any, *names: str) -> list[str]:
    found: list[str] = []
    for name in names:
        for value in part.get_all(name) or ():
            found += re.findall(r"[^\s<>,;:\"]+@[^\s<>,;:\"]+", str(value))
    return found


def _original(part: Any) -> list[str]:
    """Return the addresses in the headers of the mail that is reported about."""
    payload = part.get_payload()
    if isinstance(payload, list) and payload:
        return _texts(payload[0], "return-path", "x-envelope-from")
    text = part.get_payload(decode=True) or b""
    return _texts(message_from_bytes(cast("bytes", text), policy=policy.default), "return-path", "x-envelope-from")


def _delivery_status(part: Any, message: int) -> MailReport | None:
    """Read the fields about the recipient. Each of our mails has one recipient."""
    fields: list[Any] = part.get_payload() if isinstance(part.get_payload(), list) else []
    for each in fields:
        action = str(each.get("action") or "").strip().lower()
        found = STATUS.search(str(each.get("status") or ""))
        status = None if found is None else ".".join(found.groups())
        match action:
            case "failed":
                return MailReport(kind="failed", message=message, status=status)
            case "delayed":
                return MailReport(kind="delayed", message=message, status=status)
            case "delivered" | "relayed" | "expanded":
                return MailReport(kind="delivered", message=message, status=status)
            case _:
                continue
    return None


async def apply_mail_report(tx: Transaction, report: MailReport, *, hooks: tuple[MessageHook, ...] = ()) -> str:
    """Apply a report to its message, and suppress the recipient if no later mail can arrive. Return what happened.

    A second copy of the same report changes nothing.
    """
    key = f"message:{report.message}:send"
    if report.kind == "delayed":
        return "delayed"
    if report.kind == "delivered":
        applied = await report_delivery(tx, status="delivered", key=key, channel="email", hooks=hooks)
    elif report.kind == "failed":
        error = f"bounced ({report.status or 'no status'})"
        applied = await report_delivery(tx, status="bounced", key=key, channel="email", error=error, hooks=hooks)
    else:
        applied = None
    suppressed = False
    if report.suppresses is not None:
        suppressed = await suppress_recipient_of(
            tx, report.message, reason=report.suppresses, source="mail", status=report.status
        )
    if applied is None and not suppressed:
        return "not_ours" if report.kind != "complaint" else "known"
    return "suppressed" if suppressed else report.kind
