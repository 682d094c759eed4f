"""SMTP: send mail through a relay, over connections that are reused.

SMTP has no idempotency keys. A failure before the message itself (DATA) means that nothing was sent. A failure
between DATA and the relay's answer is Unknown. The Message-ID is derived from the key, so that mail programs can
recognise a mail that was sent twice.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from typing import ClassVar, Literal

import aiosmtplib
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPResponseException,
)

from .outcome import Accepted, Outcome, Refused, Throttled, Unknown, Unreachable

Encryption = Literal["starttls", "tls", "none"]


@dataclass(slots=True)
class _Connection:
    smtp: aiosmtplib.SMTP
    sent: int = 0
    idle_since: float = 0.0


@dataclass(frozen=True, slots=True)
class Relay:
    """The relay that sends mail. `encryption="none"` is for a relay on this machine and for tests."""

    host: str
    port: int = 587
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    encryption: Encryption = "starttls"
    timeout_s: float = 30.0
    max_connections: int = 4
    mails_per_connection: int = 100
    idle_s: float = 20.0


class Smtp:
    """Sends mail through one relay, at most `max_connections` mails at a time."""

    repeatable: ClassVar[bool] = False

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._idle: deque[_Connection] = deque()
        self._slots = asyncio.Semaphore(relay.max_connections)

    async def send(self, message: EmailMessage, *, key: str, sender: str, to: str) -> Outcome:
        """Send one mail to one address. The reference is its Message-ID."""
        stamp(message, key=key, sender=sender)
        async with self._slots:
            opened = await self._opened(sender)
            if not isinstance(opened, _Connection):
                return opened
            outcome = await self._transfer(opened, message, to)
            await self._put_back(opened, outcome)
            return outcome

    async def aclose(self) -> None:
        while self._idle:
            await _quit(self._idle.popleft())

    async def _opened(self, sender: str) -> _Connection | Outcome:
        """Return a connection that has accepted MAIL FROM: an idle one, or a new one if the relay closed it."""
        while self._idle:
            # The most recently used one, so that the others can expire.
            kept = self._idle.pop()
            if time.monotonic() - kept.idle_since > self._relay.idle_s:
                await _quit(kept)
                continue
            try:
                await kept.smtp.mail(sender)
                return kept
            except SMTPResponseException as error:
                await _quit(kept)
                if error.code != 421:
                    return _refusal(error, "the sender")
            except (SMTPException, OSError):
                kept.smtp.close()
        return await self._connected(sender)

    async def _connected(self, sender: str) -> _Connection | Outcome:
        relay = self._relay
        smtp = aiosmtplib.SMTP(
            hostname=relay.host,
            port=relay.port,
            username=relay.username,
            password=relay.password,
            use_tls=relay.encryption == "tls",
            start_tls=relay.encryption == "starttls",
            timeout=relay.timeout_s,
        )
        try:
            await smtp.connect()
            await smtp.mail(sender)
        except SMTPAuthenticationError as error:
            smtp.close()
            # Not permanent: the mail can be sent once an operator corrects the password.
            return Refused(f"relay refused the login ({error.code})", permanent=False)
        except SMTPResponseException as error:
            smtp.close()
            return _refusal(error, "the sender")
        except (SMTPException, OSError) as error:
            smtp.close()
            return Unreachable(f"{relay.host}:{relay.port}: no connection ({error.__class__.__name__})")
        return _Connection(smtp)

    async def _transfer(self, connection: _Connection, message: EmailMessage, to: str) -> Outcome:
        relay = self._relay
        try:
            await connection.smtp.rcpt(to)
        except SMTPResponseException as error:
            return _refusal(error, "the recipient")
        except (SMTPException, OSError) as error:
            return Unreachable(f"{relay.host}: connection lost before the mail was sent ({error.__class__.__name__})")
        try:
            answer = await connection.smtp.data(message.as_bytes())
        except SMTPResponseException as error:
            return _refusal(error, "the mail")
        except (SMTPException, OSError) as error:
            return Unknown(f"{relay.host}: connection lost while the mail was sent ({error.__class__.__name__})")
        connection.sent += 1
        return Accepted(str(message["Message-ID"]), {"code": answer.code})

    async def _put_back(self, connection: _Connection, outcome: Outcome) -> None:
        if not connection.smtp.is_connected:
            connection.smtp.close()
            return
        if isinstance(outcome, Unknown) or connection.sent >= self._relay.mails_per_connection:
            await _quit(connection)
            return
        if not isinstance(outcome, Accepted):
            try:
                # The envelope of the refused mail must not become part of the next mail.
                await connection.smtp.rset()
            except (SMTPException, OSError):
                connection.smtp.close()
                return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)


def message_id(key: str, *, domain: str) -> str:
    """Return a Message-ID that depends only on the key and the domain."""
    return f"<{sha256(key.encode()).hexdigest()[:40]}@{domain}>"


def stamp(message: EmailMessage, *, key: str, sender: str) -> None:
    """Set the Message-ID of a mail from its key, and the Date if it has none."""
    del message["Message-ID"]
    message["Message-ID"] = message_id(key, domain=sender.rpartition("@")[2] or "localhost")
    if "Date" not in message:
        message["Date"] = formatdate(usegmt=True)


def _refusal(error: SMTPResponseException, what: str) -> Refused | Throttled:
    """Convert an SMTP error: 4xx may be retried, 5xx not. Only the code is kept, because the text may contain the address."""
    if error.code == 421:
        return Throttled(None)
    passing = 400 <= error.code < 500
    enhanced = error.message.split(" ", 1)[0] if error.message[:2] in ("4.", "5.") else ""
    reason = f"relay refused {what} ({error.code}{' ' + enhanced if enhanced else ''})"
    return Refused(reason, permanent=not passing)


async def _quit(connection: _Connection) -> None:
    try:
        await connection.smtp.quit(timeout=2)
    except (SMTPException, OSError):
        connection.smtp.close()
