"""The messages of the dashboard channel, as their recipients read them: list, count unread ones, mark as read.

An end user reads the messages to the own user id, a dashboard user those to `session:` and the own id. Staff also reads
those to `admins`, which notices are sent to; one of the staff marks such a message as read for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from onceward.statements import read_statement, scoped
from onceward.trust import Identity
from onceward.trust.identity import STAFF

LIST = scoped(read_statement("messages", "list_inbox"))
UNREAD = scoped(read_statement("messages", "count_unread"))
MARK = read_statement("messages", "mark_read")


class InboxReader(Protocol):
    """A transaction or a live query."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class InboxMessage:
    id: int
    type: str
    severity: str
    title: str
    body: str
    created_at: datetime
    read_at: datetime | None


def recipients_of(identity: Identity) -> list[str]:
    """Return the names under which messages to this caller are stored."""
    own = [identity.principal.ref]
    return [*own, STAFF] if identity.may("viewer") else own


async def list_inbox(
    conn: InboxReader,
    recipients: Sequence[str],
    *,
    organization: UUID | None,
    before: int | None = None,
    unread: bool = False,
    limit: int = 50,
) -> list[InboxMessage]:
    """Return the messages, newest first: of one organization, or all that the connection may see."""
    rows = await conn.fetch(LIST.of(organization), list(recipients), before, unread, limit, organization)
    return [InboxMessage(**row) for row in rows]


async def count_unread(conn: InboxReader, recipients: Sequence[str], *, organization: UUID | None) -> int:
    """Return the number of unread messages, 1000 at most."""
    return await conn.fetchval(UNREAD.of(organization), list(recipients), organization)


async def mark_read(
    conn: InboxReader, recipients: Sequence[str], *, ids: Sequence[int] = (), up_to: int | None = None
) -> int:
    """Mark messages as read: some by id, or all up to an id. Return how many were unread before."""
    return len(await conn.fetch(MARK, list(recipients), list(ids), up_to))
