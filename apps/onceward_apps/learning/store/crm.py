"""SQL of the CRM sync. The watermark is a snapshot: it sees exactly the transactions that have been sent to the CRM.

A row carries the id of the transaction that changed it. A transaction that was open when a run took its snapshot is not
in it, so the next run finds its rows, however late it commits.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

LOCK = """
insert into learning.crm_sync (kind) values ($1)
on conflict (organization_id, kind) do update set kind = excluded.kind returning watermark::text
"""
# Without a watermark every row counts as changed.
USERS = """
select u.id, u.email, u.name, u.last_login_at, u.created_at,
       (select count(*) from learning.enrollments e where e.user_id = u.id) as enrollments
  from learning.users u
 where u.organization_id = $1 and u.erased_at is null
   and ($2::text is null or (u.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                             and not pg_visible_in_snapshot(u.changed_by, $2::text::pg_snapshot))
        or exists (select from learning.enrollments e
                    where e.user_id = u.id and e.organization_id = $1 and e.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                      and not pg_visible_in_snapshot(e.changed_by, $2::text::pg_snapshot)))
   and pg_visible_in_snapshot(u.changed_by, $3::text::pg_snapshot)
   and ($4::uuid is null or u.id > $4)
 order by u.id limit $5
"""
DEALS = """
select e.id, e.status, e.amount_paid, e.currency, e.enrolled_at, e.refund_amount, e.partial_refund, u.email,
       c.id as cohort_id, c.name as cohort_name, c.starts_at, c.ends_at
  from learning.enrollments e
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
 where e.organization_id = $1 and u.erased_at is null
   and ($2::text is null or (e.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                             and not pg_visible_in_snapshot(e.changed_by, $2::text::pg_snapshot)))
   and pg_visible_in_snapshot(e.changed_by, $3::text::pg_snapshot)
   and ($4::uuid is null or e.id > $4)
 order by e.id limit $5
"""


async def snapshot(tx: Tx) -> str:
    """Return the present snapshot. Take it before reading: what commits later belongs to the next run."""
    return await tx.fetchval("select pg_current_snapshot()::text")


async def watermark(tx: Tx, kind: str) -> str | None:
    return await tx.fetchval(LOCK, kind)


async def changed_users(
    tx: Tx, organization: UUID, since: str | None, upto: str, after: UUID | None, limit: int
) -> list[Any]:
    return await tx.fetch(USERS, organization, since, upto, after, limit)


async def changed_enrollments(
    tx: Tx, organization: UUID, since: str | None, upto: str, after: UUID | None, limit: int
) -> list[Any]:
    return await tx.fetch(DEALS, organization, since, upto, after, limit)


async def move_watermark(tx: Tx, kind: str, since: str | None, upto: str) -> bool:
    """Move the watermark. Returns False if another run has moved it: that run's position stands."""
    return bool(
        await tx.fetchval(
            "update learning.crm_sync set watermark = $3::text::pg_snapshot, synced_at = onceward.now()"
            " where kind = $1 and watermark::text is not distinct from $2 returning true",
            kind,
            since,
            upto,
        )
    )


async def log_sync(tx: Tx, *, contacts: int, deals: int, failed: int, success: bool, error: str | None) -> None:
    await tx.execute(
        "insert into learning.crm_sync_log (contacts_processed, deals_processed, failed, success, error)"
        " values ($1, $2, $3, $4, $5)",
        contacts,
        deals,
        failed,
        success,
        error,
    )
