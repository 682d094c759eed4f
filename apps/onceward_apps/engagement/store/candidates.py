"""What a run looks at: pages of users by an index, so that a million users need no more memory than a thousand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

Row = Any
Fetch = Callable[..., Awaitable[Sequence[Row]]]
"""Reads rows: `run.fetch`, or `tx.fetch` for one organization."""

FIRST_USER = UUID(int=0)
FIRST_TIME = datetime(1900, 1, 1, tzinfo=UTC)

ORGANIZATIONS = """
select o.organization_id from onceward.organizations o
 where exists (select from engagement.user_profiles p where p.organization_id = o.organization_id) order by 1
"""

INACTIVE = """
select s.organization_id, s.user_id, s.last_activity_at as at, p.reengagement_opt_out, p.whatsapp_jid,
       p.preferred_destination, p.locale
  from engagement.user_engagement_states s join engagement.user_profiles p using (organization_id, user_id)
 where s.organization_id = $1 and s.state = 'active' and s.last_activity_at <= onceward.now() - $2::interval
   and s.unreachable_at is null and coalesce(s.goodbye_retry_at <= onceward.now(), true)
   and (s.last_activity_at, s.user_id) > ($3, $4)
 order by s.last_activity_at, s.user_id limit $5
"""

EXPIRED = """
select s.organization_id, s.user_id, s.goodbye_expires_at as at, p.reengagement_opt_out
  from engagement.user_engagement_states s join engagement.user_profiles p using (organization_id, user_id)
 where s.organization_id = $1 and s.goodbye_expires_at <= onceward.now() + $2::interval
   and (s.goodbye_expires_at, s.user_id) > ($3, $4)
 order by s.goodbye_expires_at, s.user_id limit $5
"""

REMINDERS = """
select s.organization_id, s.user_id, s.remind_at as at, p.reengagement_opt_out
  from engagement.user_engagement_states s join engagement.user_profiles p using (organization_id, user_id)
 where s.organization_id = $1 and s.remind_at <= onceward.now() + $2::interval
   and (s.remind_at, s.user_id) > ($3, $4)
 order by s.remind_at, s.user_id limit $5
"""

GIVEN_UP = """
select s.organization_id, s.user_id, s.goodbye_expires_at as at,
       coalesce(m.reason, case when m.delivery = 'failed' then 'not delivered' else m.status end) as reason
  from engagement.user_engagement_states s
  join onceward.messages m on coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000') = $1
     and m.key = s.goodbye_key
 where s.organization_id = $1 and s.goodbye_expires_at is not null
   and (m.status in ('failed', 'dead_letter', 'cancelled', 'expired') or m.delivery = 'failed')
   and s.goodbye_expires_at <= onceward.now() + $2::interval
   and (s.goodbye_expires_at, s.user_id) > ($3, $4)
 order by s.goodbye_expires_at, s.user_id limit $5
"""

# One statement per page, with the transactions of its users counted in it.
REVIEWED = """
with page as materialized (
    select s.organization_id, s.user_id, s.last_activity_at from engagement.user_engagement_states s
     where s.organization_id = $1 and s.user_id > $2 and s.state in ('active', 'help_flow')
     order by s.user_id limit $3
)
select s.organization_id, s.user_id, s.last_activity_at, p.reengagement_opt_out, p.whatsapp_jid,
       p.preferred_destination, p.locale,
       coalesce(t.transaction_count, 0) as transaction_count,
       s.last_activity_at > onceward.now() - interval '7 days' or t.transaction_count > 0 as was_active
  from page s
  join engagement.user_profiles p using (organization_id, user_id)
  left join lateral (
      select count(*) as transaction_count from engagement.transactions t
       where t.organization_id = s.organization_id and t.user_id = s.user_id
         and t.created_at > onceward.now() - interval '7 days' and t.created_at <= onceward.now()
  ) t on true
 order by s.user_id
"""


async def organizations(fetch: Fetch) -> list[UUID]:
    return [row["organization_id"] for row in await fetch(ORGANIZATIONS)]


async def _pages(fetch: Fetch, statement: str, organization: UUID, period: timedelta, size: int) -> AsyncGenerator[Row]:
    """Yield rows page by page, in the order of a time and the user_id."""
    at: datetime = FIRST_TIME
    user_id = FIRST_USER
    while rows := await fetch(statement, organization, period, at, user_id, size):
        for row in rows:
            yield row
        if len(rows) < size:
            return
        at, user_id = rows[-1]["at"], rows[-1]["user_id"]


async def inactive(fetch: Fetch, organization: UUID, *, period: timedelta, size: int) -> AsyncGenerator[Row]:
    """Yield active users without activity for at least `period`, opted-out users included."""
    async for row in _pages(fetch, INACTIVE, organization, period, size):
        yield row


async def expired(fetch: Fetch, organization: UUID, *, size: int) -> AsyncGenerator[Row]:
    """Yield users whose time to answer the goodbye is over."""
    async for row in _pages(fetch, EXPIRED, organization, timedelta(0), size):
        yield row


async def reminders(fetch: Fetch, organization: UUID, *, size: int) -> AsyncGenerator[Row]:
    """Yield users who answered `later` and whose time is over."""
    async for row in _pages(fetch, REMINDERS, organization, timedelta(0), size):
        yield row


async def given_up(fetch: Fetch, organization: UUID, *, size: int) -> AsyncGenerator[Row]:
    """Yield users in `goodbye_sent` whose goodbye will not be sent."""
    async for row in _pages(fetch, GIVEN_UP, organization, timedelta(days=3650), size):
        yield row


async def reviewed(fetch: Fetch, organization: UUID, *, size: int) -> AsyncGenerator[Row]:
    """Yield users in `active` or `help_flow` with activity or transactions in the last 7 days, opted-out users
    included."""
    user_id = FIRST_USER
    while rows := await fetch(REVIEWED, organization, user_id, size):
        for row in rows:
            if row["was_active"]:
                yield row
        if len(rows) < size:
            return
        user_id = rows[-1]["user_id"]
