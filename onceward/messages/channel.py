"""The seam to the outside: what every channel takes, gives back, and promises about a send that was not answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from onceward.messages.recipient import ChannelName
from onceward.messages.rendering import Rendered
from onceward.messages.templates import Template
from onceward.providers.outbound import Lookup, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message, ready to go out on one channel."""

    id: int
    key: str
    """The idempotency key at the service: the same on every try, for ever."""
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
    """When an earlier send of it began, where its outcome is not known."""


class Channel(Protocol):
    """One way to reach somebody. It sends once per call; whether to try again is decided above it."""

    @property
    def name(self) -> ChannelName: ...

    @property
    def sender(self) -> str:
        """Who sends, as limits count it. No secret: it stands in the database."""
        ...

    @property
    def repeatable_for_s(self) -> float:
        """How long the service recognises a repeated key; 0: it knows no keys."""
        ...

    @property
    def readable(self) -> bool:
        """Whether `look_up` can tell what became of a send."""
        ...

    async def send(self, letter: Letter) -> Outcome:
        """Send once."""
        ...

    async def look_up(self, letter: Letter) -> Lookup:
        """Find an earlier send of this letter. Only asked where `readable`."""
        ...

    async def aclose(self) -> None: ...
