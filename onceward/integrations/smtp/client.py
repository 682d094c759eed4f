"""SMTP: send mail through a relay, over connections that are reused.

SMTP has no idempotency keys. A failure before the message itself (DATA) means that nothing was sent. A failure
between DATA and the relay's answer is Unknown. The Message-ID is derived from the key, so that mail programs can
recognise a mail that was sent twice.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import ClassVar, Literal, cast

import aiosmtplib
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from onceward.messages.mail_composer import stamped
from onceward.messages.plain_mail import PlainMail
from onceward.services.outcome import Accepted, Refused, ServiceAnswer, Unknown, Unreachable

from .errors import CLOSING, judge_login, judge_refusal
from .session import COMPLETED, Refusal, Reply, SessionLost, SmtpSession, is_address

Encryption = Literal["starttls", "tls", "none"]


@dataclass(slots=True)
class _Connection:
    session: SmtpSession
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
    host_name: str | None = None
    """The name that we give ourselves in EHLO. None: the name of this machine."""


class Smtp:
    """Sends mail through one relay, at most `max_connections` mails at a time."""

    repeatable: ClassVar[bool] = False

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._idle: deque[_Connection] = deque()
        self._slots = asyncio.Semaphore(relay.max_connections)
        self._turns = 0
        self._sending = 0
        self._opening = 0

    @property
    def host(self) -> str:
        return self._relay.host

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[ServiceAnswer | None]:
        """Wait for one of the connections and hold it for one `send`.

        Yield None if it is open, otherwise why it is not.
        """
        async with self._slots:
            self._turns += 1
            try:
                yield await self._open_enough()
            finally:
                self._turns -= 1

    async def send(
        self,
        message: EmailMessage | PlainMail,
        *,
        key: str,
        sender: str,
        to: str,
        return_path: str | None = None,
        sign: Callable[[bytes], bytes] | None = None,
    ) -> ServiceAnswer:
        """Send one mail to one address. The caller holds a `turn`. The reference is the Message-ID of the mail.

        `return_path` is the envelope sender, which gets the bounces (default: `sender`); `sign` adds a signature.
        """
        if not (is_address(to) and is_address(sender)):
            which = "sender" if is_address(to) else "recipient"
            return Refused(f"the address of the {which} has characters that SMTP cannot carry", permanent=True)
        reference, content = stamped(message, key=key, sender=sender)
        if sign is not None:
            content = sign(content)
        self._sending += 1
        try:
            opened = await self._announced(return_path or sender, to)
            if not isinstance(opened, _Connection):
                return opened
            outcome = await self._transfer(opened, content, reference=reference)
            await self._put_back(opened, outcome)
            return outcome
        finally:
            self._sending -= 1

    async def check(self) -> ServiceAnswer:
        """Connect, encrypt and log in. `detail` says what the relay offers."""
        connection = await self._connect()
        if not isinstance(connection, _Connection):
            return connection
        await connection.session.quit()
        return Accepted(None, {"smtputf8": connection.session.offers_smtputf8})

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.popleft().session.quit()

    async def _open_enough(self) -> ServiceAnswer | None:
        """Open a connection if there are fewer than turns. Return why it could not be opened.

        One that is being opened counts: otherwise a turn that begins meanwhile would open one too many.
        """
        await self._close_expired()
        if len(self._idle) + self._sending + self._opening >= self._turns:
            return None
        self._opening += 1
        try:
            connection = await self._connect()
        finally:
            self._opening -= 1
        if not isinstance(connection, _Connection):
            return connection
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        return None

    async def _close_expired(self) -> None:
        expired = [each for each in self._idle if self._is_expired(each)]
        for each in expired:
            self._idle.remove(each)
        for each in expired:
            await each.session.quit()

    def _is_expired(self, connection: _Connection) -> bool:
        return time.monotonic() - connection.idle_since > self._relay.idle_s or not connection.session.is_open

    async def _announced(self, sender: str, to: str) -> _Connection | ServiceAnswer:
        """Return a connection that waits for the mail: an idle one, or a new one if the relay closed it."""
        while self._idle:
            # The most recently used one, so that the others can expire.
            kept = self._idle.pop()
            if self._is_expired(kept):
                await kept.session.quit()
                continue
            try:
                refusal = await kept.session.begin(sender, to)
            except SessionLost:
                kept.session.close()
                continue
            if refusal is None:
                return kept
            if refusal.reply.code != CLOSING:
                outcome = judge_refusal(refusal)
                await self._put_back(kept, outcome)
                return outcome
            await kept.session.quit()
        connection = await self._connect()
        if not isinstance(connection, _Connection):
            return connection
        try:
            refusal = await connection.session.begin(sender, to)
        except SessionLost as error:
            connection.session.close()
            return Unreachable(f"{self._relay.host}: connection lost before the mail was sent ({error})")
        if refusal is None:
            return connection
        outcome = judge_refusal(refusal)
        await self._put_back(connection, outcome)
        return outcome

    async def _connect(self) -> _Connection | ServiceAnswer:
        relay = self._relay
        smtp = aiosmtplib.SMTP(
            hostname=relay.host,
            port=relay.port,
            username=relay.username,
            password=relay.password,
            use_tls=relay.encryption == "tls",
            start_tls=relay.encryption == "starttls",
            timeout=relay.timeout_s,
            local_hostname=relay.host_name,
        )
        try:
            return _Connection(await _session(smtp, relay.timeout_s))
        except SMTPAuthenticationError as error:
            smtp.close()
            return judge_login(error.code)
        except SMTPResponseException as error:
            smtp.close()
            return judge_refusal(Refusal("the connection", Reply(error.code, error.message)))
        except (SMTPException, OSError) as error:
            smtp.close()
            return Unreachable(f"{relay.host}:{relay.port}: no connection ({error.__class__.__name__})")

    async def _transfer(self, connection: _Connection, content: bytes, *, reference: str) -> ServiceAnswer:
        try:
            reply = await connection.session.finish(content)
        except SessionLost as error:
            return Unknown(f"{self._relay.host}: connection lost while the mail was sent ({error})")
        if reply.code != COMPLETED:
            return judge_refusal(Refusal("the mail", reply))
        connection.sent += 1
        return Accepted(reference, {"code": reply.code})

    async def _put_back(self, connection: _Connection, outcome: ServiceAnswer) -> None:
        session = connection.session
        if not session.is_open:
            session.close()
            return
        if isinstance(outcome, Unknown) or connection.sent >= self._relay.mails_per_connection:
            await session.quit()
            return
        if not isinstance(outcome, Accepted):
            try:
                # The envelope of the refused mail must not become part of the next mail.
                await session.reset()
            except SessionLost:
                session.close()
                return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)


async def _session(smtp: aiosmtplib.SMTP, timeout_s: float) -> SmtpSession:
    """Connect, encrypt and log in as configured, and return the session."""
    await smtp.connect()
    if smtp.is_ehlo_or_helo_needed:
        try:
            await smtp.ehlo()
        except SMTPHeloError:
            await smtp.helo()
    if smtp.transport is None:
        raise SMTPServerDisconnected("the connection was closed during the handshake")
    transport = cast(asyncio.Transport, smtp.transport)
    return SmtpSession(
        transport,
        pipelining=smtp.supports_extension("pipelining"),
        timeout_s=timeout_s,
        smtputf8=smtp.supports_extension("smtputf8"),
    )
