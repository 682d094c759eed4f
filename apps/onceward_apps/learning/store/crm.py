"""SQL of the CRM sync. The watermark is a snapshot: it sees exactly the transactions that have been sent to the CRM.

A row carries the id of the transaction that changed it. A transaction that was open when a run took its snapshot is not
in it, so the next run finds its rows, however late it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward import Tx

# A run that was interrupted goes on: with its snapshot, after the last record that the CRM has answered.
RESUME = """
insert into learning.crm_sync as s (kind, upto) values ($1, pg_current_snapshot())
on conflict (organization_id, kind) do update set upto = coalesce(s.upto, pg_current_snapshot())
returning watermark::text as since, upto::text as upto, after
"""
NOTE_POSITION = "update learning.crm_sync set after = $3 where kind = $1 and upto::text = $2"
FINISH = """
update learning.crm_sync set watermark = upto, upto = null, after = null, synced_at = onceward.now()
 where kind = $1 and upto::text = $2
"""
# Those that were refused a day ago, so that what an operator repaired in the CRM is sent without a change here.
REFUSED_BEFORE = """
select record_id from learning.crm_refused
 where organization_id = $1 and kind = $2 and refused_at < onceward.now() - interval '1 day'
 order by refused_at limit $3
"""
ACCEPTED = "delete from learning.crm_refused where kind = $1 and record_id = any($2::uuid[])"
REFUSED = """
insert into learning.crm_refused (kind, record_id, reason)
select $1, * from unnest($2::uuid[], $3::text[])
on conflict (organization_id, kind, record_id) do update set reason = excluded.reason, refused_at = onceward.now()
"""
# Without a watermark every row counts as changed. With `only` the named rows are returned, changed or not.
USERS = """
select u.id, u.email, u.name, u.last_login_at, u.created_at,
       (select count(*) from learning.enrollments e where e.user_id = u.id) as enrollments
  from learning.users u
 where u.organization_id = $1 and u.erased_at is null
   and case when $6::uuid[] is not null then u.id = any($6::uuid[]) else
       ($2::text is null or (u.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                             and not pg_visible_in_snapshot(u.changed_by, $2::text::pg_snapshot))
        or exists (select from learning.enrollments e
                    where e.user_id = u.id and e.organization_id = $1
                      and e.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                      and not pg_visible_in_snapshot(e.changed_by, $2::text::pg_snapshot)))
       and pg_visible_in_snapshot(u.changed_by, $3::text::pg_snapshot) end
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
   and case when $6::uuid[] is not null then e.id = any($6::uuid[]) else
       ($2::text is null or (e.changed_by >= pg_snapshot_xmin($2::text::pg_snapshot)
                             and not pg_visible_in_snapshot(e.changed_by, $2::text::pg_snapshot)))
       and pg_visible_in_snapshot(e.changed_by, $3::text::pg_snapshot) end
   and ($4::uuid is null or e.id > $4)
 order by e.id limit $5
"""


async def resume(tx: Tx, kind: str) -> tuple[str | None, str, UUID | None]:
    """Return the watermark, the snapshot of this run or of the one that it continues, and its position."""
    row = await tx.fetchrow(RESUME, kind)
    assert row is not None
    return row["since"], row["upto"], row["after"]


async def changed_users(
    tx: Tx,
    organization: UUID,
    *,
    upto: str,
    since: str | None = None,
    after: UUID | None = None,
    limit: int = 100,
    only: list[UUID] | None = None,
) -> list[Any]:
    return await tx.fetch(USERS, organization, since, upto, after, limit, only)


async def changed_enrollments(
    tx: Tx,
    organization: UUID,
    *,
    upto: str,
    since: str | None = None,
    after: UUID | None = None,
    limit: int = 100,
    only: list[UUID] | None = None,
) -> list[Any]:
    return await tx.fetch(DEALS, organization, since, upto, after, limit, only)


async def note_position(tx: Tx, kind: str, upto: str, after: UUID) -> None:
    await tx.execute(NOTE_POSITION, kind, upto, after)


async def finish(tx: Tx, kind: str, upto: str) -> None:
    """Move the watermark to the snapshot of the run. A run that another one has finished changes nothing."""
    await tx.execute(FINISH, kind, upto)


async def refused_before(tx: Tx, organization: UUID, kind: str, limit: int) -> list[UUID]:
    return [row["record_id"] for row in await tx.fetch(REFUSED_BEFORE, organization, kind, limit)]


async def note_refused(tx: Tx, kind: str, sent: list[UUID], refused: Mapping[UUID, str]) -> None:
    """Forget earlier refusals of the records that were sent, and note the new ones."""
    await tx.execute(ACCEPTED, kind, sent)
    if refused:
        await tx.execute(REFUSED, kind, list(refused), list(refused.values()))


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
