"""Mail through an SMTP relay."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from email.utils import parseaddr
from typing import TYPE_CHECKING, Literal

from onceward.messages.channel import ChannelSetup, ChannelSource, Letter
from onceward.messages.mail_composer import compose
from onceward.messages.settings import MessagesSettings
from onceward.services.outcome import Lookup, ServiceAnswer

if TYPE_CHECKING:
    from onceward.integrations.smtp.client import Encryption, Smtp
    from onceward.integrations.smtp.settings import SmtpSettings

ENCRYPTION: dict[str, Encryption] = {"starttls": "starttls", "implicit": "tls", "none": "none"}


class SmtpChannel:
    """Sends through an SMTP relay. SMTP has no idempotency keys, so the outcome of an unanswered send is unknown."""

    name: Literal["email"] = "email"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, smtp: Smtp, *, sender: str) -> None:
        self._smtp = smtp
        self._from = sender
        self.sender = parseaddr(sender)[1]

    def turn(self) -> AbstractAsyncContextManager[ServiceAnswer | None]:
        return self._smtp.turn()

    async def send(self, letter: Letter) -> ServiceAnswer:
        message = compose(letter, self._from)
        return await self._smtp.send(message, key=letter.key, sender=self.sender, to=letter.to)

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("SMTP cannot look up a mail that was sent")

    async def aclose(self) -> None:
        await self._smtp.aclose()


def configured(setup: ChannelSetup) -> SmtpChannel | None:
    """Return the channel of the relay in the settings."""
    settings: SmtpSettings = setup.settings_of("smtp")
    if settings.host is None:
        return None
    from onceward.integrations.smtp.client import Relay, Smtp  # aiosmtplib: slow to import

    relay = Relay(
        host=settings.host,
        port=settings.port,
        username=settings.username,
        password=settings.password.get_secret_value() if settings.password else None,
        encryption=ENCRYPTION[settings.tls],
    )
    return SmtpChannel(Smtp(relay), sender=setup.settings.of(MessagesSettings).mail_from)


CHANNEL = ChannelSource(name="email", configured=configured)
