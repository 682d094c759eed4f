"""The interface of a channel: what it takes, what it returns, and what it promises about a send that got no answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from onceward.messages.attachments import LoadedAttachment
from onceward.messages.limits import Limit
from onceward.messages.recipient import ChannelName
from onceward.messages.rendering import Rendered
from onceward.messages.templates import Template
from onceward.services.outcome import Lookup, ServiceAnswer
from onceward.services.settings import load_integration_settings

if TYPE_CHECKING:
    from onceward.http import GuardedClient, ServiceClient
    from onceward.messages.mail_domains import MailIdentity
    from onceward.services import Services
    from onceward.services.accounts import ServiceAccount
    from onceward.settings import Settings

ReportAddress = Callable[[UUID | None], Awaitable[str | None]]
"""Returns the address to which a service reports the delivery of a message of an organization.

None: it reports nothing.
"""


async def no_report_address(_organization: UUID | None) -> None:
    """Ask the service for no delivery reports."""


def no_reports(_service: str) -> ReportAddress:
    """Ask no service for delivery reports."""
    return no_report_address


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One rendered message with the address it goes to on one channel."""

    id: int
    key: str
    """The idempotency key at the service. It is the same on every attempt."""
    to: str = field(repr=False)
    rendered: Rendered = field(repr=False)
    template: Template = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    organization: UUID | None = None
    recipient: str = field(default="", repr=False)
    unsubscribe_url: str | None = field(default=None, repr=False)
    heard_at: datetime | None = None
    """When the recipient last wrote to us over this channel."""
    destination: str = "individual"
    sending_since: datetime | None = None
    """When an earlier send of this message began, if the outcome of that send is unknown."""
    expires_at: datetime | None = None
    """The service should not deliver the letter at this time or later, if its API has a field for that."""
    attachments: tuple[LoadedAttachment, ...] = field(default=(), repr=False)

    def remaining_s(self) -> float | None:
        """Return the seconds until the deadline; None if there is none."""
        if self.expires_at is None:
            return None
        return max(1.0, (self.expires_at - datetime.now(UTC)).total_seconds())


class Channel(Protocol):
    """One way to reach a person. A channel sends once per call; the sender decides about retries."""

    @property
    def name(self) -> ChannelName: ...

    @property
    def sender(self) -> str:
        """The sender that limits are counted for. The database stores this value, so it must not be a secret."""
        ...

    @property
    def repeatable_for_s(self) -> float:
        """How long the service recognises a repeated key; 0 if the service has no idempotency keys."""
        ...

    @property
    def readable(self) -> bool:
        """Whether `look_up` can find out the outcome of a send."""
        ...

    def turn(self) -> AbstractAsyncContextManager[ServiceAnswer | None]:
        """Wait until nothing but the call itself separates a letter from the service, and hold that for one `send`.

        Yield None, or the failure to connect. The sender records the start of a send after this wait: a worker that is
        killed earlier has certainly not sent the letter. A channel whose sends can be repeated or looked up need not
        wait.
        """
        ...

    async def send(self, letter: Letter) -> ServiceAnswer:
        """Send the letter once. The sender holds a `turn`."""
        ...

    async def look_up(self, letter: Letter) -> Lookup:
        """Find an earlier send of this letter. The sender calls this only if the channel is `readable`."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSetup:
    """What a channel is made with."""

    settings: Settings
    client: ServiceClient
    guarded: GuardedClient
    mail_identity: Callable[[UUID | None], Awaitable[MailIdentity]] | None = None
    """Returns who the mails of an organization are from. None: always the sender of the settings."""
    report_address: Callable[[str], ReportAddress] = no_reports
    """Returns what finds the address for the delivery reports of a service."""

    def settings_of(self, name: str) -> Any:
        """Return the settings of an integration by its name."""
        return load_integration_settings(name, self.settings)

    def account(self, name: str) -> ServiceAccount | None:
        """Return the installation's account at a service; None if the settings have none."""
        from onceward.services import Services

        services = Services()
        services.configure(self.settings)
        return services.installation_account(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSource:
    """What an integration declares as its channel: how to make one.

    `configured` returns the channel of the installation's account, or None if the settings have none. `own` returns the
    channel of an organization's own account; without it, an organization always uses the installation's. Of several
    integrations with the same channel, a `preferred` one comes first.
    """

    name: ChannelName
    configured: Callable[[ChannelSetup], Channel | None]
    own: Callable[[ChannelSetup, Services, UUID], Awaitable[Channel]] | None = None
    preferred: bool = False
    limit: Callable[[ChannelSetup], Limit | None] | None = None
    """Returns how fast the settings allow each sender of the channel to send. None: no limit."""


class Turns:
    """The turns of a channel over HTTP: at most as many at a time as `GuardedClient` opens connections to one host."""

    def __init__(self, most: int = 32) -> None:
        self._free = asyncio.Semaphore(most)

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[None]:
        async with self._free:
            yield None
