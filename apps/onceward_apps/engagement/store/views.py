"""What people and jobs read: users, histories, the funnel, runs and returns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from onceward import Tx


class Reader(Protocol):
    """A transaction, a page of the dashboard or a live query. Row-level security limits what it sees."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...


BY_NUMBER = """
select s.user_id, s.state, p.reengagement_opt_out
  from engagement.user_profiles p join engagement.user_engagement_states s using (organization_id, user_id)
 where p.organization_id = $1 and p.whatsapp_jid = any($2::text[])
 order by s.user_id for update of s
"""

TRANSITIONS = """
select id, user_id, at, from_state, to_state, trigger, held_out from engagement.transitions where id = any($1::bigint[])
"""

QUEUED = """
select id, user_id, message_type, message_params, destination, retry_count, created_at
  from engagement.engagement_message_queue where id = any($1::bigint[])
"""

USER = """
select p.user_id, p.locale, p.preferred_destination, p.reengagement_opt_out, p.whatsapp_jid is not null as has_number,
       p.created_at,
       s.state, s.state_since, s.last_activity_at, s.goodbye_sent_at, s.goodbye_expires_at, s.remind_at, s.replied_at,
       s.goodbye_failures, s.goodbye_retry_at, s.unreachable_at, s.unreachable_because
  from engagement.user_profiles p join engagement.user_engagement_states s using (organization_id, user_id)
 where p.organization_id = $1 and p.user_id = $2
"""

USER_MESSAGES = """
select id, message_type, message_key, message_params, destination, scheduled_for, sent_at, status, retry_count,
       error_message,
       idempotency_key, created_at
  from engagement.engagement_message_queue
 -- By the index of the recipient: the view alone would look at all users.
 where user_id = $1 and id = any (array(
       select m.id from onceward.messages m where m.recipient = $1::uuid::text and m.template like 'engagement.%'
        order by m.id desc limit $2))
 order by id desc
"""

USER_TRANSITIONS = """
select id, at, from_state, to_state, trigger, held_out, caused_by from engagement.transitions
 where organization_id = $1 and user_id = $2 order by id desc limit $3
"""

USER_ERRORS = """
select run_id as id, run_id, at, step as check_type,
       concat_ws(': ', nullif(error ->> 'type', 'Failed'), error ->> 'message') as error
  from onceward.run_items
 where organization_id = $1 and key = $1::uuid || '/' || $2::uuid and outcome = 'failed' order by at desc limit $3
"""

ACTIVITY_COUNT = """
select count(*) from engagement.transactions
 where organization_id = $1 and user_id = $2 and created_at > onceward.now() - $3::interval
   and created_at <= onceward.now()
"""

# A recipient may have opted out as a user of this app, or by the number alone.
OPTED_OUT_NOW = """
select p.user_id from engagement.user_profiles p
 where p.organization_id = $1 and p.user_id = any($2::uuid[]) and exists (
     select from onceward.opt_outs o
      where o.organization_id = $1 and o.recipient in (p.user_id::text, p.whatsapp_jid)
        and o.channel in ('*', 'whatsapp') and o.category in ('*', $3))
"""

COUNTS = """
-- A few rows for each organization, however many users it has.
select state, sum(users)::bigint as users from engagement.state_counts where organization_id = $1 group by state
"""
ALL_COUNTS = "select state, sum(users)::bigint as users from engagement.state_counts group by state"

MOVES = """
select from_state, to_state, trigger, count(*) as users from engagement.transitions
 where ($1::uuid is null or organization_id = $1) and at >= $2 and at < $3
 group by from_state, to_state, trigger order by count(*) desc, from_state, to_state
"""

RUNS = """
with checks as (
    select run_id, schedule as job, step, min(started_at) as started_at, max(updated_at) as updated_at,
           sum(processed)::bigint as processed,
           sum(succeeded)::bigint as succeeded, sum(failed)::bigint as failed, sum(skipped)::bigint as skipped
      from onceward.run_parts
     where ($1::uuid is null or organization_id = $1) and schedule in ('engagement-daily', 'engagement-weekly')
     group by run_id, schedule, step
)
select run_id, job, min(started_at) as started_at, max(updated_at) as updated_at,
       sum(processed)::bigint as processed, sum(succeeded)::bigint as succeeded, sum(failed)::bigint as failed,
       sum(skipped)::bigint as skipped,
       jsonb_object_agg(step, jsonb_build_object('processed', processed, 'succeeded', succeeded, 'failed', failed,
       'skipped', skipped)
                        ) as checks
  from checks group by run_id, job order by run_id desc limit $2
"""

ERRORS = """
select run_id, step as check_type, split_part(key, '/', 2)::uuid as user_id, at,
       concat_ws(': ', nullif(error ->> 'type', 'Failed'), error ->> 'message') as error
  from onceward.run_items
 where ($1::uuid is null or organization_id = $1) and run_id = any($2::bigint[]) and outcome = 'failed' order by at
 limit 200
"""

UNREACHABLE = """
select s.user_id, p.whatsapp_jid, s.unreachable_at, s.unreachable_because, s.goodbye_failures
  from engagement.user_engagement_states s join engagement.user_profiles p using (organization_id, user_id)
 where ($1::uuid is null or s.organization_id = $1) and s.unreachable_at is not null
 order by s.unreachable_at desc limit $2
"""

NUMBERS = """
select user_id, whatsapp_jid from engagement.user_profiles
 where organization_id = $1 and user_id = any($2::text[]::uuid[]) and whatsapp_jid is not null
"""

RETURNS = """
select held_out, sum(users)::bigint as users, sum(returned)::bigint as returned from engagement.returns
 where ($1::uuid is null or organization_id = $1) and day > (onceward.now() at time zone 'UTC')::date - $2::int
 group by held_out order by held_out
"""

LONGEST_HISTORY = 200


async def by_number(tx: Tx, numbers: Sequence[str]) -> list[Any]:
    """Return the users with this number, locked."""
    return await tx.fetch(BY_NUMBER, tx.organization, list(numbers))


async def organizations_of(tx: Tx, numbers: Sequence[str]) -> list[UUID]:
    rows = await tx.fetch("select * from engagement.organizations_of($1) as organization_id", list(numbers))
    return [row["organization_id"] for row in rows]


async def transitions(tx: Tx, ids: Sequence[int]) -> list[Any]:
    return await tx.fetch(TRANSITIONS, list(ids))


async def queued_messages(tx: Tx, ids: Sequence[int]) -> list[Any]:
    return await tx.fetch(QUEUED, list(ids))


async def user(reader: Reader, organization: UUID | None, user_id: UUID) -> Any:
    return await reader.fetchrow(USER, organization, user_id)


async def user_messages(reader: Reader, user_id: UUID) -> list[Any]:
    return await reader.fetch(USER_MESSAGES, user_id, LONGEST_HISTORY)


async def user_transitions(reader: Reader, organization: UUID | None, user_id: UUID) -> list[Any]:
    return await reader.fetch(USER_TRANSITIONS, organization, user_id, LONGEST_HISTORY)


async def user_errors(reader: Reader, organization: UUID | None, user_id: UUID) -> list[Any]:
    return await reader.fetch(USER_ERRORS, organization, user_id, LONGEST_HISTORY)


async def activity_count(tx: Tx, user_id: UUID, days: int) -> int:
    return await tx.fetchval(ACTIVITY_COUNT, tx.organization, user_id, timedelta(days=days))


async def opted_out_now(tx: Tx, users: Sequence[UUID], *, category: str = "engagement") -> list[UUID]:
    """Return those of the users to whom no message of this category may be sent now."""
    if not users:
        return []
    rows = await tx.fetch(OPTED_OUT_NOW, tx.organization, list(users), category)
    return [row["user_id"] for row in rows]


async def counts(reader: Reader, organization: UUID | None) -> dict[str, int]:
    """Return the number of users in each state, and of those who are `unreachable` or `opted_out`."""
    if organization is None:
        rows = await reader.fetch(ALL_COUNTS)
    else:
        rows = await reader.fetch(COUNTS, organization)
    return {row["state"]: row["users"] for row in rows if row["users"]}


async def moves(reader: Reader, organization: UUID | None, *, since: datetime, until: datetime) -> list[Any]:
    return await reader.fetch(MOVES, organization, since, until)


async def runs(reader: Reader, organization: UUID | None, *, limit: int = 20) -> list[dict[str, Any]]:
    """Return the latest runs with their errors."""
    rows: list[dict[str, Any]] = [{**dict(row), "errors": []} for row in await reader.fetch(RUNS, organization, limit)]
    by_id = {row["run_id"]: row for row in rows}
    for error in await reader.fetch(ERRORS, organization, list(by_id)):
        by_id[error["run_id"]]["errors"].append(dict(error))
    return rows


ORGANIZATIONS_WITH = """
select o.organization_id from onceward.organizations o
 where exists (select from engagement.user_profiles p where p.organization_id = o.organization_id and p.user_id = $1)
 limit 2
"""


async def unreachable(reader: Reader, organization: UUID | None, *, limit: int = 100) -> list[Any]:
    return await reader.fetch(UNREACHABLE, organization, limit)


async def numbers(reader: Reader, organization: UUID | None, user_ids: Sequence[str]) -> dict[str, str]:
    """Return the WhatsApp numbers of users of one organization, by their id."""
    if organization is None or not user_ids:
        return {}
    rows = await reader.fetch(NUMBERS, organization, list(user_ids))
    return {str(row["user_id"]): row["whatsapp_jid"] for row in rows}


async def organizations_with(reader: Reader, user_id: UUID) -> list[UUID]:
    """Return up to two organizations that have a user with this id, for an administrator who has chosen none."""
    return [row["organization_id"] for row in await reader.fetch(ORGANIZATIONS_WITH, user_id)]


async def returns(reader: Reader, organization: UUID | None, *, days: int = 180) -> list[Any]:
    """Return how many users came back within 14 days, with and without a goodbye. The daily run has counted them."""
    return await reader.fetch(RETURNS, organization, days)


async def now(reader: Reader) -> datetime:
    return await reader.fetchval("select onceward.now()")
