"""SQL for users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.errors import NotFound
from onceward_apps.learning.store.rows import Student

ADD = """
insert into learning.users (email, name, avatar, locale, confirmed_at)
values (lower($1), $2, $3, $4, case when $5 then onceward.now() end)
on conflict (organization_id, lower(email)) do nothing returning *
"""
BY_EMAIL = "select * from learning.users where organization_id = onceward.organization() and lower(email) = lower($1)"
BY_ID = "select * from learning.users where id = $1"
# Locked, so that two payments of one person for one cohort are handled one after the other.
LOCK = "select * from learning.users where id = $1 for no key update"
UPDATE = """
update learning.users set name = coalesce($2, name), avatar = coalesce($3, avatar), locale = coalesce($4, locale),
       email = coalesce(lower($5), email)
 where id = $1 returning *
"""
# The expression is that of the index `users_words`.
PURCHASES = """
with named as materialized (
    select u.id from learning.users u
     where u.organization_id = onceward.organization()
       and to_tsvector('simple', coalesce(coalesce(nullif(u.name, ''), u.email), '') || ' ' || coalesce(u.email, ''))
           @@ plainto_tsquery('simple', $1)
     limit 100
)
select e.id from learning.enrollments e join named n on n.id = e.user_id
union
select c.id from learning.checkouts c join named n on n.id = c.user_id where c.status = 'started'
union
select c.id from learning.checkouts c join named n on n.id = c.user_id where c.status = 'waiting'
"""


async def add(
    tx: Tx, email: str, name: str, avatar: str | None, locale: str | None, *, confirmed: bool
) -> Student | None:
    """Return the new row, or None if the address is known."""
    return cast("Student | None", await tx.fetchrow(ADD, email, name, avatar, locale, confirmed))


async def confirm(tx: Tx, user_id: UUID) -> None:
    """Note that the address belongs to the person: they used a link from a mail, or paid."""
    await tx.execute(
        "update learning.users set confirmed_at = onceward.now() where id = $1 and confirmed_at is null", user_id
    )


async def unconfirmed(tx: Tx, user_ids: Sequence[UUID]) -> set[UUID]:
    """Return those whose address nobody has confirmed."""
    rows = await tx.fetch("select id from learning.users where id = any($1) and confirmed_at is null", list(user_ids))
    return {row["id"] for row in rows}


async def by_email(tx: Tx, email: str) -> Student | None:
    return cast("Student | None", await tx.fetchrow(BY_EMAIL, email))


async def find(tx: Tx, user_id: UUID) -> Student | None:
    return cast("Student | None", await tx.fetchrow(BY_ID, user_id))


async def lock(tx: Tx, user_id: UUID) -> Student | None:
    return cast("Student | None", await tx.fetchrow(LOCK, user_id))


async def get(tx: Tx, user_id: UUID) -> Student:
    """Return a student who exists."""
    found = await find(tx, user_id)
    if found is None:
        raise NotFound(f"there is no user {user_id}")
    return found


async def get_locked(tx: Tx, user_id: UUID) -> Student:
    """Lock and return a student who exists."""
    found = await lock(tx, user_id)
    if found is None:
        raise NotFound(f"there is no user {user_id}")
    return found


async def update(
    tx: Tx, user_id: UUID, *, name: str | None, avatar: str | None, locale: str | None, email: str | None
) -> Student:
    return cast("Student", await tx.fetchrow(UPDATE, user_id, name, avatar, locale, email))


async def purchases_of_named(tx: Tx, text: str) -> list[UUID]:
    """Return the enrolments and open checkouts of the students that a name or an address leads to."""
    return [row["id"] for row in await tx.fetch(PURCHASES, text)]
