"""Messages as a kind of work: how a worker loads a claimed message and its recipient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from time import monotonic
from typing import Any, Literal
from uuid import UUID

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.work.task import KindRoutines

LOAD = read_statement("messages", "load_messages")
FINISH = read_statement("messages", "finish_messages")


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was queued, with the current data of its recipient."""

    id: int
    organization_id: UUID | None
    key: str
    channel: str
    template: str
    version: str
    category: str
    data: Mapping[str, Any] | None = field(repr=False)
    policy: str
    recipient: str = field(repr=False)
    address: str | None = field(repr=False)
    locale: str | None
    timezone: str | None
    token: UUID | None
    sending_since: datetime | None
    quiet_from: time | None
    quiet_to: time | None
    heard_at: datetime | None
    destination: str
    now: datetime
    attachments: Sequence[dict[str, Any]] | None = field(default=None, repr=False)
    context: Mapping[str, Any] | None = field(default=None, repr=False)
    bulk: bool = False
    expires_at: datetime | None = None
    troubles: list[Mapping[str, Any]] | None = None
    """What services refuse that may concern this message (`onceward.account_troubles`)."""
    is_trial: bool = False
    """Whether the line of the organization's own account had failed when the message was loaded."""
    is_own: bool = False
    """Whether the organization had an account of its own when the message was queued: no other account sends it."""
    sending_for_s: float | None = None
    """Time since the first send without an answer, by the database's clock, when the message was loaded."""
    loaded_at: float = field(default_factory=monotonic)

    @property
    def is_expired(self) -> bool:
        """Whether the message must not be sent any more. A send without an answer is examined first."""
        return self.expires_at is not None and self.expires_at <= self.now and self.sending_since is None


class MessageKind:
    """Loads claimed messages for the worker, and acknowledges many at once."""

    name: Literal["message"] = "message"
    routines = KindRoutines(settled="onceward.settled_message", ended="onceward.ended_message")
    finish = FINISH

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, Message]:
        return {row["id"]: Message(**row) for row in await conn.fetch(LOAD, ids)}
