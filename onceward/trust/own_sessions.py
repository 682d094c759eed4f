"""The sessions of one person: list them, end one, or end all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from onceward.db import Connection, Transaction
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.errors import NotFound
from onceward.trust.identity import Identity

LIST = read_statement("trust", "list_own_sessions")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session without its token."""

    session_id: UUID
    method: str
    browser: str
    address: str
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    has_second_factor: bool


async def list_sessions(conn: Connection, user_id: UUID) -> list[OpenSession]:
    """Return the open sessions of a person, the most recently used first."""
    return [OpenSession(**dict(row)) for row in await conn.fetch(LIST, user_id)]


async def end_session(tx: Transaction, user_id: UUID, session_id: UUID, *, actor: Identity) -> None:
    """End one session of this person. Raises `NotFound` for a session of somebody else. Runs as the engine."""
    ended = await tx.fetchval(
        "delete from onceward.sessions where user_id = $1 and session_id = $2 returning 1", user_id, session_id
    )
    if not ended:
        raise NotFound(f"session {session_id} does not exist or has ended")
    await audit.record(tx, "session.ended", entity_type="user", entity_id=user_id, actor=actor)


async def end_sessions(tx: Transaction, user_id: UUID, *, keep: UUID | None = None, actor: Identity | str) -> int:
    """End all sessions of a person except `keep`, and delete their unused login links. Returns how many sessions."""
    ended = await tx.fetch(
        "delete from onceward.sessions where user_id = $1 and session_id is distinct from $2 returning 1", user_id, keep
    )
    await tx.execute("delete from onceward.login_links where user_id = $1 and used_at is null", user_id)
    await audit.record(
        tx, "session.ended_all", entity_type="user", entity_id=user_id, changes={"sessions": len(ended)}, actor=actor
    )
    return len(ended)
