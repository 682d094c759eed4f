"""Mail through an SMTP relay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from email.utils import parseaddr
from functools import partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit
from uuid import UUID

from onceward.messages.channel import ChannelSetup, ChannelSource, Letter
from onceward.messages.mail_address import bounce_address, wire_address
from onceward.messages.mail_check import MailFinding
from onceward.messages.mail_composer import compose
from onceward.messages.mail_domains import MailIdentity, bounce_secrets
from onceward.messages.settings import MessagesSettings
from onceward.services.outcome import Accepted, Lookup, Refused, ServiceAnswer

if TYPE_CHECKING:
    from onceward.integrations.smtp.client import Encryption, Smtp
    from onceward.integrations.smtp.settings import SmtpSettings

ENCRYPTION: dict[str, Encryption] = {"starttls": "starttls", "implicit": "tls", "none": "none"}


class SmtpChannel:
    """Sends through an SMTP relay. SMTP has no idempotency keys, so the outcome of an unanswered send is unknown."""

    name: Literal["email"] = "email"
    repeatable_for_s = 0.0
    readable = False

    def __init__(
        self,
        smtp: Smtp,
        *,
        sender: str,
        identity: Callable[[UUID | None], Awaitable[MailIdentity]] | None = None,
        return_path: Callable[[int], str] | None = None,
        is_encrypted: bool = True,
    ) -> None:
        """`identity` returns who the mails of an organization are from, `return_path` the envelope sender of a
        message."""
        self._smtp = smtp
        self._identity = identity
        self._default = MailIdentity(sender)
        self._return_path = return_path
        self._is_encrypted = is_encrypted
        self.sender = parseaddr(sender)[1]

    def turn(self) -> AbstractAsyncContextManager[ServiceAnswer | None]:
        return self._smtp.turn()

    async def send(self, letter: Letter) -> ServiceAnswer:
        try:
            to = wire_address(letter.to).text
        except ValueError as error:
            return Refused(str(error), permanent=True)
        identity = self._default if self._identity is None else await self._identity(letter.organization)
        return await self._smtp.send(
            compose(letter, identity.sender, to=to),
            key=letter.key,
            sender=identity.address,
            to=to,
            return_path=None if self._return_path is None else self._return_path(letter.id),
            sign=None if identity.key is None else identity.sign,
        )

    async def check_relay(self) -> list[MailFinding]:
        """Connect to the relay, and say whether it encrypts and takes international addresses."""
        answer = await self._smtp.check()
        if not isinstance(answer, Accepted):
            return [MailFinding("relay", self._smtp.host, "fail", getattr(answer, "reason", answer.label))]
        utf8 = "" if answer.detail["smtputf8"] else "; it does not offer SMTPUTF8: addresses beyond ASCII are refused"
        if not self._is_encrypted:
            return [MailFinding("TLS", self._smtp.host, "warn", f"the connection is not encrypted{utf8}")]
        return [MailFinding("TLS", self._smtp.host, "ok", f"encrypted, with a valid certificate{utf8}")]

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("SMTP cannot look up a mail that was sent")

    async def aclose(self) -> None:
        await self._smtp.aclose()


def configured(setup: ChannelSetup) -> SmtpChannel | None:
    """Return the channel of the relay in the settings."""
    settings: SmtpSettings = setup.settings_of("smtp")
    own = setup.settings.of(MessagesSettings)
    if settings.host is None:
        return None
    from onceward.integrations.smtp.client import Relay, Smtp  # aiosmtplib: slow to import

    relay = Relay(
        host=settings.host,
        port=settings.port,
        username=settings.username,
        password=settings.password.get_secret_value() if settings.password else None,
        encryption=ENCRYPTION[settings.tls],
        host_name=own.mail_host_name or urlsplit(setup.settings.url or "").hostname,
    )
    return SmtpChannel(
        Smtp(relay),
        sender=own.mail_from,
        identity=setup.mail_identity,
        return_path=None
        if own.mail_return_path is None
        else partial(_bounces, own.mail_return_path, bounce_secrets(setup.settings)),
        is_encrypted=relay.encryption != "none",
    )


def _bounces(return_path: str, secrets: Sequence[bytes], message: int) -> str:
    return bounce_address(return_path, message, secrets)


CHANNEL = ChannelSource(name="email", configured=configured)
