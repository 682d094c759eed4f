"""SQL of sign-in links, sessions of students, and page views."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

USE_LINK = """
update learning.sign_in_links l set used_at = onceward.now()
  from learning.users u
 where l.token_hash = $1 and l.used_at is null and l.expires_at > onceward.now() and u.id = l.user_id
   and u.erased_at is null
returning l.user_id, l.cohort_id, l.seat_block_id
"""
SESSION = """
select s.id, s.user_id, s.expires_at, u.name, u.email, u.locale
  from learning.student_sessions s join learning.users u on u.id = s.user_id
 where s.token_hash = $1 and s.expires_at > onceward.now() and u.erased_at is null
"""


async def users_with_address(tx: Tx, email: str) -> list[Any]:
    return await tx.fetch("select user_id, organization_id from learning.users_with_address($1)", email)


async def user(tx: Tx, user_id: UUID) -> Any:
    return await tx.fetchrow(
        "select u.id, u.email, u.name, u.avatar, u.locale, u.erased_at, u.id as user_id, u.name as user_name,"
        " o.name as organization_name"
        " from learning.users u left join onceward.organizations o on o.organization_id = u.organization_id"
        " where u.id = $1 and u.erased_at is null",
        user_id,
    )


async def add_link(
    tx: Tx, token_hash: bytes, user_id: UUID, minutes: int, cohort_id: UUID | None, seat_block_id: UUID | None
) -> None:
    await tx.execute(
        "insert into learning.sign_in_links (token_hash, user_id, expires_at, cohort_id, seat_block_id)"
        " values ($1, $2, onceward.now() + make_interval(mins => $3), $4, $5)",
        token_hash,
        user_id,
        minutes,
        cohort_id,
        seat_block_id,
    )


async def has_fresh_link(tx: Tx, user_id: UUID, cohort_id: UUID | None = None) -> bool:
    """Whether a link of the last minute waits to be used, for the same place if it is for one."""
    return await tx.fetchval(
        "select exists (select from learning.sign_in_links where user_id = $1 and used_at is null"
        " and created_at > onceward.now() - interval '1 minute' and ($2::uuid is null or cohort_id = $2))",
        user_id,
        cohort_id,
    )


async def waits_for(tx: Tx, user_id: UUID) -> list[UUID]:
    """Return the cohorts on whose waitlist a person is."""
    rows = await tx.fetch(
        "select cohort_id from learning.waitlist_entries where user_id = $1 and status = 'ACTIVE'", user_id
    )
    return [row["cohort_id"] for row in rows]


async def link_is_open(tx: Tx, token_hash: bytes) -> bool:
    return bool(
        await tx.fetchval(
            "select true from learning.sign_in_links"
            " where token_hash = $1 and used_at is null and expires_at > onceward.now()",
            token_hash,
        )
    )


async def use_link(tx: Tx, token_hash: bytes) -> Any:
    """Mark a link as used, and return its user and cohort. None: it is unknown, used or expired."""
    return await tx.fetchrow(USE_LINK, token_hash)


async def open_session(tx: Tx, token_hash: bytes, user_id: UUID, days: int) -> Any:
    """Open a session. Who used a link from a mail has confirmed the address."""
    await tx.execute(
        "update learning.users set last_login_at = onceward.now(), confirmed_at = coalesce(confirmed_at,"
        " onceward.now()) where id = $1",
        user_id,
    )
    return await tx.fetchrow(
        "insert into learning.student_sessions (token_hash, user_id, expires_at)"
        " values ($1, $2, onceward.now() + make_interval(days => $3)) returning id, expires_at",
        token_hash,
        user_id,
        days,
    )


async def session(tx: Tx, token_hash: bytes) -> Any:
    return await tx.fetchrow(SESSION, token_hash)


async def end_session(tx: Tx, token_hash: bytes) -> None:
    await tx.execute("delete from learning.student_sessions where token_hash = $1", token_hash)


async def add_page_view(tx: Tx, visitor: str, path: str) -> None:
    await tx.execute("insert into learning.page_views (visitor, path) values ($1, $2)", visitor, path)


async def organization_of(tx: Tx, kind: str, value: str) -> UUID | None:
    return await tx.fetchval("select learning.organization_of($1, $2)", kind, value)
