"""SQL of what a cohort teaches, and of lists for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward import Tx


async def add_item(
    tx: Tx,
    cohort_id: UUID,
    *,
    kind: str,
    title: str,
    body: str | None = None,
    url: str | None = None,
    position: int = 0,
    required: bool = True,
    is_prep: bool = False,
    resource: str | None = None,
    graded: bool = False,
    pass_percentage: int = 80,
) -> Any:
    """Add an item. Returns None if the cohort has one of this kind and title."""
    return await tx.fetchrow(
        "insert into learning.content_items"
        " (cohort_id, kind, title, body, url, position, required, is_prep, resource, graded, pass_percentage)"
        " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (cohort_id, kind, title) do nothing"
        " returning id, cohort_id, kind, title, position, required, is_prep, resource",
        cohort_id,
        kind,
        title,
        body,
        url,
        position,
        required,
        is_prep,
        resource,
        graded,
        pass_percentage,
    )


ITEM_FIELDS = (
    "kind",
    "title",
    "body",
    "url",
    "position",
    "required",
    "is_prep",
    "resource",
    "graded",
    "pass_percentage",
)
COPY_ITEMS = f"""
insert into learning.content_items (cohort_id, {", ".join(ITEM_FIELDS)})
select $2, {", ".join(ITEM_FIELDS)} from learning.content_items where cohort_id = $1
"""
CHANGE_ITEM = f"""
update learning.content_items set {", ".join(f"{name} = ${n}" for n, name in enumerate(ITEM_FIELDS, 2))} where id = $1
"""
REMOVE_ITEM = """
with done as (delete from learning.progress where item_id = $1 returning 1)
select count(*) from done
"""


async def copy_items(tx: Tx, cohort_id: UUID, to_cohort: UUID) -> None:
    await tx.execute(COPY_ITEMS, cohort_id, to_cohort)


async def lock_item(tx: Tx, item_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.content_items where id = $1 for update", item_id)


async def has_item(tx: Tx, cohort_id: UUID, kind: str, title: str, *, other_than: UUID) -> bool:
    return await tx.fetchval(
        "select exists (select from learning.content_items"
        " where cohort_id = $1 and kind = $2 and title = $3 and id <> $4)",
        cohort_id,
        kind,
        title,
        other_than,
    )


async def change_item(tx: Tx, item_id: UUID, values: Mapping[str, Any]) -> None:
    await tx.execute(CHANGE_ITEM, item_id, *(values[name] for name in ITEM_FIELDS))


async def remove_item(tx: Tx, item_id: UUID) -> int:
    """Delete an item with the marks of those who had done it. Returns how many they were."""
    done = await tx.fetchval(REMOVE_ITEM, item_id)
    await tx.execute("delete from learning.content_items where id = $1", item_id)
    return done


async def enrollments(tx: Tx, cohort_id: UUID, limit: int, after: UUID | None) -> list[Any]:
    """Return enrolments, the newest first; `after` is the last one of the page before."""
    return await tx.fetch(
        "select e.id, e.user_id, u.email, u.name, e.status, e.enrolled_at, e.amount_paid, e.currency, "
        "e.access_expires_at,"
        " e.nps_category from learning.enrollments e join learning.users u on u.id = e.user_id"
        " where e.cohort_id = $1 and ($3::uuid is null or (e.enrolled_at, e.id) <"
        "       (select a.enrolled_at, a.id from learning.enrollments a where a.id = $3 and a.cohort_id = $1))"
        " order by e.enrolled_at desc, e.id desc limit $2",
        cohort_id,
        limit,
        after,
    )


async def waitlist(tx: Tx, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(
        "select w.id, w.user_id, u.email, u.name, w.status, w.priority, w.added_at, w.invited_at, w.expired_invites"
        " from learning.waitlist_entries w join learning.users u on u.id = w.user_id"
        " where w.cohort_id = $1 and w.status in ('ACTIVE', 'INVITED')"
        " order by w.priority desc, w.expired_invites, w.added_at, w.id limit 500",
        cohort_id,
    )


async def daily_metrics(tx: Tx, days: int) -> list[Any]:
    return await tx.fetch(
        "select day, metrics, kpis, stored_at from learning.daily_metrics order by day desc limit $1", days
    )


async def add_correction(
    tx: Tx, enrollment_id: UUID, session_id: UUID, *, attended: bool, cause: str, actor: str, reason: str
) -> bool:
    """Append a correction. Returns False if the newest one says the same. The caller has locked the enrolment."""
    added = await tx.fetchval(
        "insert into learning.attendance_observations"
        " (enrollment_id, session_id, attended, source, cause, observed_by, reason)"
        " select $1::uuid, $2::uuid, $3::boolean, 'correction', $4::text, $5::text, $6::text"
        "  where not exists (select from (select attended, reason from learning.attendance_observations"
        "         where enrollment_id = $1 and session_id = $2 and source = 'correction' order by id desc limit 1)"
        " newest       where newest.attended = $3::boolean and newest.reason = $6::text)"
        " returning id",
        enrollment_id,
        session_id,
        attended,
        cause,
        actor,
        reason,
    )
    return added is not None
