"""Changes of profiles and states. Each statement handles many users; rows are locked in the order of their user_id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward_apps.engagement.model import State, Trigger, sources, transition

Due = Literal["any", "inactive", "expired", "reminder"]
"""Which condition a state must still meet when it is changed, besides being a state that the trigger acts on."""

MOVE = """
-- Conditions are checked again under the lock: activity may have come since the candidates were read.
with locked as (
    select s.user_id, s.state, s.goodbye_key, i.key, i.held_out
      from unnest($2::uuid[], $3::text[], $4::boolean[]) as i (user_id, key, held_out)
      join engagement.user_engagement_states s on s.organization_id = $1 and s.user_id = i.user_id
      join engagement.user_profiles p on p.organization_id = $1 and p.user_id = i.user_id
     where s.state = any($5::text[])
       and case $8::text
           when 'inactive' then s.last_activity_at <= onceward.now() - $9::interval and s.unreachable_at is null
                and coalesce(s.goodbye_retry_at <= onceward.now(), true) and not p.reengagement_opt_out
           when 'expired' then s.goodbye_expires_at <= onceward.now() and not p.reengagement_opt_out
           when 'reminder' then s.remind_at <= onceward.now() and not p.reengagement_opt_out
           else true end
     order by s.user_id for update of s
), moved as (
    update engagement.user_engagement_states s
       set state = $6, state_since = onceward.now(),
           goodbye_sent_at = case $6 when 'goodbye_sent' then onceward.now() when 'active' then null
               else s.goodbye_sent_at end,
           goodbye_expires_at = case when $6 = 'goodbye_sent' then onceward.now() + $10::interval end,
           goodbye_key = case when $6 = 'goodbye_sent' then l.key end,
           remind_at = case when $6 = 'remind_later' then onceward.now() + $11::interval end,
           replied_at = case when $7 like 'reply%' then onceward.now() else s.replied_at end,
           last_activity_at = case when $7 = 'reply_help' then onceward.now() else s.last_activity_at end
      from locked l
     where s.organization_id = $1 and s.user_id = l.user_id
), logged as (
    insert into engagement.transitions (organization_id, user_id, from_state, to_state, trigger, held_out)
    select $1, l.user_id, l.state, $6, $7, l.held_out from locked l
    returning id, user_id
)
select l.user_id, l.state as from_state, l.goodbye_key, logged.id from locked l join logged using (user_id)
"""

ACTIVITY = """
-- Activity in the future counts as now. Older activity than the last one known, or than an answer, does not change the
-- state.
with input as (
    select i.user_id, max(least(i.at, onceward.now())) as at
      from unnest($2::uuid[], $3::timestamptz[]) as i (user_id, at) group by i.user_id
), locked as (
    select s.user_id, s.state, s.goodbye_key, i.at,
           s.state <> 'active' and i.at > onceward.now() - $4::interval
               and coalesce(i.at > s.replied_at, true) as wakes
      from engagement.user_engagement_states s join input i using (user_id)
     where s.organization_id = $1
     order by s.user_id for update of s
), changed as (
    update engagement.user_engagement_states s
       set last_activity_at = greatest(s.last_activity_at, l.at),
           state = case when l.wakes then 'active' else s.state end,
           state_since = case when l.wakes then onceward.now() else s.state_since end,
           goodbye_sent_at = case when not l.wakes then s.goodbye_sent_at end,
           goodbye_expires_at = case when not l.wakes then s.goodbye_expires_at end,
           goodbye_key = case when not l.wakes then s.goodbye_key end,
           remind_at = case when not l.wakes then s.remind_at end,
           goodbye_failures = case when l.at > s.last_activity_at then 0 else s.goodbye_failures end,
           goodbye_retry_at = case when l.at <= s.last_activity_at then s.goodbye_retry_at end,
           unreachable_at = case when l.at <= s.last_activity_at then s.unreachable_at end,
           unreachable_because = case when l.at <= s.last_activity_at then s.unreachable_because end
      from locked l
     where s.organization_id = $1 and s.user_id = l.user_id and (l.wakes or l.at > s.last_activity_at)
), logged as (
    insert into engagement.transitions (organization_id, user_id, from_state, to_state, trigger)
    select $1, l.user_id, l.state, 'active', 'activity' from locked l where l.wakes
    returning id, user_id
)
select l.user_id, l.state as from_state, l.goodbye_key, logged.id from locked l left join logged using (user_id)
"""

TRANSACTIONS = """
-- In the order of the ids: two requests with the same transactions in another order wait for each other once, not
-- crosswise.
insert into engagement.transactions (organization_id, id, user_id, created_at)
select $1, i.id, i.user_id, least(i.created_at, onceward.now())
  from unnest($2::uuid[], $3::uuid[], $4::timestamptz[]) as i (id, user_id, created_at)
  join engagement.user_profiles p on p.organization_id = $1 and p.user_id = i.user_id
 order by i.id
on conflict do nothing
returning user_id, created_at
"""

KNOWN = "select user_id from engagement.user_profiles where organization_id = $1 and user_id = any($2::uuid[])"

SAVE_PROFILE = """
insert into engagement.user_profiles as p (organization_id, user_id, whatsapp_jid, locale, preferred_destination,
    reengagement_opt_out)
values ($1, $2, $3, $4, coalesce($5, 'individual'), coalesce($6, false))
on conflict (organization_id, user_id) do update
    set whatsapp_jid = coalesce($3, p.whatsapp_jid), locale = coalesce($4, p.locale),
        preferred_destination = coalesce($5, p.preferred_destination),
        reengagement_opt_out = coalesce($6, p.reengagement_opt_out), updated_at = onceward.now()
  where (coalesce($3, p.whatsapp_jid), coalesce($4, p.locale), coalesce($5, p.preferred_destination),
         coalesce($6, p.reengagement_opt_out))
     is distinct from (p.whatsapp_jid, p.locale, p.preferred_destination, p.reengagement_opt_out)
returning user_id, whatsapp_jid, locale, preferred_destination, reengagement_opt_out
"""

PROFILE = """
select user_id, whatsapp_jid, locale, preferred_destination, reengagement_opt_out
  from engagement.user_profiles where organization_id = $1 and user_id = $2
"""

NUMBER = "select whatsapp_jid from engagement.user_profiles where organization_id = $1 and user_id = $2 for update"

NEW_STATE = """
insert into engagement.user_engagement_states as s (organization_id, user_id, last_activity_at)
values ($1, $2, least(coalesce($3, onceward.now()), onceward.now()))
on conflict (organization_id, user_id) do nothing
"""

NEW_NUMBER = """
update engagement.user_engagement_states
   set unreachable_at = null, unreachable_because = null, goodbye_failures = 0, goodbye_retry_at = null
 where organization_id = $1 and user_id = $2 and (unreachable_at is not null or goodbye_failures > 0)
"""

OPT_OUT = """
update engagement.user_profiles set reengagement_opt_out = $3, updated_at = onceward.now()
 where organization_id = $1 and user_id = any($2::uuid[]) and reengagement_opt_out <> $3
returning user_id
"""

UNREACHABLE = """
update engagement.user_engagement_states s set unreachable_at = onceward.now(), unreachable_because = $3
 where s.organization_id = $1 and s.user_id = any($2::uuid[]) and s.unreachable_at is null
"""

GIVEN_UP = """
update engagement.user_engagement_states s
   set goodbye_failures = s.goodbye_failures + 1, goodbye_retry_at = onceward.now() + $3::interval,
       unreachable_at = case when s.goodbye_failures + 1 >= $4 then onceward.now() end,
       unreachable_because = case when s.goodbye_failures + 1 >= $4 then 'goodbye_failed' end
 where s.organization_id = $1 and s.user_id = any($2::uuid[])
returning s.user_id, s.unreachable_at is not null as unreachable
"""

# A goodbye that waits (a parked channel, quiet hours) does not expire; one that was sent late expires 48 hours after
# the send. `unknown` counts as sent: nobody gets a second goodbye.
MOVE_EXPIRY = """
-- One page of waiting users: $6 after ($3, $4), not later than $5. Return the last one, and how many were read.
with page as (
    select s.user_id, s.goodbye_expires_at, s.goodbye_key from engagement.user_engagement_states s
     where s.organization_id = $1 and s.goodbye_expires_at is not null and s.goodbye_expires_at <= $5
       and (s.goodbye_expires_at, s.user_id) > ($3, $4)
     order by s.goodbye_expires_at, s.user_id limit $6
), moved as (
update engagement.user_engagement_states s
   set goodbye_sent_at = greatest(s.goodbye_sent_at, x.sent_at),
       goodbye_expires_at = greatest(s.goodbye_expires_at, x.sent_at + $2::interval)
  from (
    select s.user_id, case m.status when 'success' then m.sent_at when 'unknown' then coalesce(m.unsure_since,
           m.sending_since)
                                    else onceward.now() end as sent_at
      from page p
      join engagement.user_engagement_states s on s.organization_id = $1 and s.user_id = p.user_id
      join onceward.messages m
        on coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000') = $1 and m.key = p.goodbye_key
     where m.status in ('success', 'unknown', 'pending', 'processing') and m.delivery is distinct from 'failed'
     order by s.user_id for update of s
  ) x
 where s.organization_id = $1 and s.user_id = x.user_id and s.state = 'goodbye_sent'
   and x.sent_at + $2::interval > s.goodbye_expires_at
)
select count(*) as read, max(goodbye_expires_at) as at,
       (select user_id from page order by goodbye_expires_at desc, user_id desc limit 1) as user_id
  from page
"""

COUNT_RETURNS = """
-- Count the goodbyes of each day whose users have had 14 days ($2) to return, once. A day is read by its index.
with days as (
    select d::date as day
      from generate_series(
               greatest((select max(day) + 1 from engagement.returns where organization_id = $1)::timestamp,
                        (select min(at) at time zone 'UTC' from engagement.transitions
                          where organization_id = $1)::date),
               ((onceward.now() - $2::interval) at time zone 'UTC')::date - 1, interval '1 day') d
)
insert into engagement.returns (organization_id, day, held_out, users, returned)
select $1, days.day, t.held_out, count(*),
       count(*) filter (where exists (
           select from engagement.transitions r
            where r.organization_id = $1 and r.user_id = t.user_id and r.id > t.id
              and r.trigger in ('activity', 'reply_help') and r.at <= t.at + $2::interval))
  from days join engagement.transitions t
    on t.organization_id = $1 and t.trigger = 'inactivity_14d'
   and t.at >= days.day::timestamp at time zone 'UTC' and t.at < (days.day + 1)::timestamp at time zone 'UTC'
 group by days.day, t.held_out
on conflict do nothing
"""

UNFOLDED = "select organization_id from engagement.state_counts group by organization_id having count(*) >= $1"

FOLD = """
-- A row that is appended meanwhile stays for the next time; of two runs at once, the second finds nothing to delete.
with gone as (delete from engagement.state_counts where organization_id = $1 returning state, users)
insert into engagement.state_counts (organization_id, state, users)
select $1, state, sum(users) from gone group by state having sum(users) <> 0
"""


@dataclass(frozen=True, slots=True)
class Moved:
    """One user whose state changed. `id` names the row of `engagement.transitions`."""

    user_id: UUID
    from_state: State
    to_state: State
    goodbye_key: str | None
    """The goodbye that may still be queued, if the user was in `goodbye_sent`."""
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The periods of the settings."""

    inactivity: timedelta
    answer: timedelta
    remind: timedelta


async def move(
    tx: Tx,
    trigger: Trigger,
    users: Sequence[UUID],
    times: Times,
    *,
    due: Due = "any",
    keys: Sequence[str | None] | None = None,
    held_out: Sequence[bool] | None = None,
) -> list[Moved]:
    """Change the state of users on whom the trigger acts and who still meet the condition; return who moved."""
    acts_on = sources(trigger)
    target = transition(acts_on[0], trigger)
    assert target is not None
    rows = await tx.fetch(
        MOVE,
        tx.organization,
        users,
        keys or [None] * len(users),
        held_out or [False] * len(users),
        acts_on,
        target,
        trigger,
        due,
        times.inactivity,
        times.answer,
        times.remind,
    )
    return [Moved(row["user_id"], row["from_state"], target, row["goodbye_key"], row["id"]) for row in rows]


async def activity(
    tx: Tx, users: Sequence[UUID], at: Sequence[datetime], inactivity: timedelta
) -> tuple[list[Moved], set[UUID]]:
    """Record activity; return who became active by it, and which users are known."""
    rows = await tx.fetch(ACTIVITY, tx.organization, users, at, inactivity)
    moved = [
        Moved(row["user_id"], row["from_state"], "active", row["goodbye_key"], row["id"])
        for row in rows
        if row["id"] is not None
    ]
    return moved, {row["user_id"] for row in rows}


async def add_transactions(
    tx: Tx, ids: Sequence[UUID], users: Sequence[UUID], at: Sequence[datetime]
) -> list[tuple[UUID, datetime]]:
    """Insert transactions that are new, and return their users and times. Transactions of unknown users are left
    out."""
    rows = await tx.fetch(TRANSACTIONS, tx.organization, ids, users, at)
    return [(row["user_id"], row["created_at"]) for row in rows]


async def known(tx: Tx, users: Sequence[UUID]) -> set[UUID]:
    return {row["user_id"] for row in await tx.fetch(KNOWN, tx.organization, users)}


async def save_profile(
    tx: Tx,
    user_id: UUID,
    *,
    whatsapp_jid: str | None,
    locale: str | None,
    preferred_destination: str | None,
    opt_out: bool | None,
    last_activity_at: datetime | None,
) -> tuple[Mapping[str, Any], bool]:
    """Return the profile, and whether it is new or changed."""
    before = await tx.fetchval(NUMBER, tx.organization, user_id)
    changed = await tx.fetchrow(
        SAVE_PROFILE, tx.organization, user_id, whatsapp_jid, locale, preferred_destination, opt_out
    )
    row = changed or await tx.fetchrow(PROFILE, tx.organization, user_id)
    assert row is not None
    await tx.execute(NEW_STATE, tx.organization, user_id, last_activity_at)
    if whatsapp_jid is not None and whatsapp_jid != before:
        await tx.execute(NEW_NUMBER, tx.organization, user_id)
    return dict(row), changed is not None


async def set_opt_out(tx: Tx, users: Sequence[UUID], opt_out: bool) -> list[UUID]:
    """Set the opt-out of these users, and return those for whom it changed."""
    return [row["user_id"] for row in await tx.fetch(OPT_OUT, tx.organization, users, opt_out)]


async def mark_unreachable(tx: Tx, users: Sequence[UUID], because: str) -> None:
    await tx.execute(UNREACHABLE, tx.organization, users, because)


async def goodbye_failed(tx: Tx, users: Sequence[UUID], *, retry: timedelta, most: int) -> dict[UUID, bool]:
    """Count a failed goodbye for each user; return for each whether the user is unreachable now."""
    rows = await tx.fetch(GIVEN_UP, tx.organization, users, retry, most)
    return {row["user_id"]: row["unreachable"] for row in rows}


async def move_expiry(
    tx: Tx, answer: timedelta, *, after: tuple[datetime, UUID], until: datetime, size: int
) -> tuple[datetime, UUID] | None:
    """Let a page of goodbyes expire 48 hours after they were really sent. Return after whom to go on; None at the end.

    `until` ends the walk: a goodbye that is moved goes behind the others, and would be met again.
    """
    at, user_id = after
    row = await tx.fetchrow(MOVE_EXPIRY, tx.organization, answer, at, user_id, until, size)
    assert row is not None
    return None if row["read"] < size else (row["at"], row["user_id"])


async def count_returns(tx: Tx, within: timedelta) -> None:
    """Count who came back after the goodbyes whose time is over, once for each day."""
    await tx.execute(COUNT_RETURNS, tx.organization, within)
