"""SQL for the waitlist and its invites."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

JOIN = """
insert into learning.waitlist_entries as w (user_id, cohort_id, priority) values ($1, $2, $3)
on conflict (user_id, cohort_id) where status in ('ACTIVE', 'INVITED')
   do update set priority = greatest(w.priority, excluded.priority)
returning *, (xmax = 0) as is_new
"""
# An invite holds a place, so it is for people who have confirmed their address. By priority, then the fewest expired
# invites, then the oldest entry.
NEXT = """
select w.*, u.email, u.name as user_name, u.locale, u.erased_at
  from learning.waitlist_entries w join learning.users u on u.id = w.user_id
 where w.cohort_id = $1 and w.status = 'ACTIVE' and u.erased_at is null and u.confirmed_at is not null
 order by w.priority desc, w.expired_invites, w.added_at, w.id limit 1 for update of w
"""
ENTRY = "select * from learning.waitlist_entries where id = $1 for update"
FIND = """
select w.*, c.name as cohort_name
  from learning.waitlist_entries w join learning.cohorts c on c.id = w.cohort_id where w.id = $1
"""
LIVE_ENTRY = """
select * from learning.waitlist_entries where user_id = $1 and cohort_id = $2
   and status in ('ACTIVE', 'INVITED') for update
"""
INVITED = "update learning.waitlist_entries set status = 'INVITED', invited_at = onceward.now() where id = $1"
END_ENTRY = """
update learning.waitlist_entries set status = $2, ended_reason = $3
 where id = $1 and status in ('ACTIVE', 'INVITED') returning *
"""
BACK = """
update learning.waitlist_entries
   set status = case when expired_invites + 1 >= $2 then 'REMOVED' else 'ACTIVE' end, invited_at = null,
       expired_invites = expired_invites + 1,
       ended_reason = case when expired_invites + 1 >= $2 then 'expired_invites' end
 where id = $1 and status = 'INVITED' returning *
"""
ADD_INVITE = """
insert into learning.waitlist_invites
    (id, waitlist_entry_id, user_id, cohort_id, token_hash, claim_id, expires_at)
values ($1, $2, $3, $4, $5, $6, $7) returning *
"""
INVITE = """
select i.*, c.name as cohort_name, c.starts_at, c.status as cohort_status, c.price, c.currency, onceward.now() as now
  from learning.waitlist_invites i join learning.cohorts c on c.id = i.cohort_id
"""
BY_TOKEN = f"{INVITE} where i.token_hash = $1"
LOCK_INVITE = f"{INVITE} where i.id = $1 for update of i"
OPEN_INVITE = f"{INVITE} where i.waitlist_entry_id = $1 and i.status = 'SENT' for update of i"
END_INVITE = """
update learning.waitlist_invites set status = $2, ended_at = onceward.now(),
    claim_id = case when $2 = 'ACCEPTED' then claim_id end
 where id = $1 and status = 'SENT' returning *
"""
EXTEND_INVITE = """
update learning.waitlist_invites set expires_at = greatest(expires_at, $2) where id = $1 and status = 'SENT'
"""
LIVE_ENTRIES = """
select w.id, w.user_id, u.email, u.name as user_name, u.locale, u.erased_at, c.name as cohort_name
  from learning.waitlist_entries w
  join learning.users u on u.id = w.user_id
  join learning.cohorts c on c.id = w.cohort_id
 where w.cohort_id = $1 and w.status in ('ACTIVE', 'INVITED') order by w.id limit $2 for update of w
"""
CLOSE = """
with ended as (
    update learning.waitlist_entries set status = 'REMOVED', ended_reason = $2 where id = any($1::uuid[])
), held as (
    select i.id, i.claim_id from learning.waitlist_invites i
     where i.waitlist_entry_id = any($1::uuid[]) and i.status = 'SENT'
), revoked as (
    update learning.waitlist_invites i set status = 'REVOKED', ended_at = onceward.now(), claim_id = null
      from held where i.id = held.id
)
select claim_id from held
"""
SET_PRIORITY = "update learning.waitlist_entries set priority = $2 where id = $1 returning *"


async def join(tx: Tx, user_id: UUID, cohort_id: UUID, priority: int) -> Any:
    """Return the live entry of the user. An existing one keeps its place in the queue and the higher priority."""
    return await tx.fetchrow(JOIN, user_id, cohort_id, priority)


async def next_entry(tx: Tx, cohort_id: UUID) -> Any:
    return await tx.fetchrow(NEXT, cohort_id)


async def entry(tx: Tx, entry_id: UUID) -> Any:
    return await tx.fetchrow(ENTRY, entry_id)


async def find(tx: Tx, entry_id: UUID) -> Any:
    """Return an entry with the name of its cohort."""
    return await tx.fetchrow(FIND, entry_id)


async def live_entry(tx: Tx, user_id: UUID, cohort_id: UUID) -> Any:
    return await tx.fetchrow(LIVE_ENTRY, user_id, cohort_id)


async def mark_invited(tx: Tx, entry_id: UUID) -> None:
    await tx.execute(INVITED, entry_id)


async def end_entry(tx: Tx, entry_id: UUID, status: str, reason: str | None = None) -> Any:
    return await tx.fetchrow(END_ENTRY, entry_id, status, reason)


async def back_to_queue(tx: Tx, entry_id: UUID, max_expired: int) -> Any:
    """Count an expired invite. The entry waits again, or is REMOVED after `max_expired` of them."""
    return await tx.fetchrow(BACK, entry_id, max_expired)


async def add_invite(
    tx: Tx, *, invite_id: UUID, entry: Any, token_hash: bytes, claim_id: int, expires_at: datetime
) -> Any:
    return await tx.fetchrow(
        ADD_INVITE, invite_id, entry["id"], entry["user_id"], entry["cohort_id"], token_hash, claim_id, expires_at
    )


async def invite_by_token(tx: Tx, token_hash: bytes) -> Any:
    return await tx.fetchrow(BY_TOKEN, token_hash)


async def lock_invite(tx: Tx, invite_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_INVITE, invite_id)


async def open_invite(tx: Tx, entry_id: UUID) -> Any:
    return await tx.fetchrow(OPEN_INVITE, entry_id)


async def end_invite(tx: Tx, invite_id: UUID, status: str) -> Any:
    return await tx.fetchrow(END_INVITE, invite_id, status)


async def extend_invite(tx: Tx, invite_id: UUID, until: datetime) -> None:
    await tx.execute(EXTEND_INVITE, invite_id, until)


async def live_entries(tx: Tx, cohort_id: UUID, limit: int) -> list[Any]:
    """Return people who wait or are invited, locked."""
    return await tx.fetch(LIVE_ENTRIES, cohort_id, limit)


async def close(tx: Tx, entry_ids: list[UUID], reason: str) -> list[int | None]:
    """End entries and revoke their invites. Returns the places that the invites held."""
    return [row["claim_id"] for row in await tx.fetch(CLOSE, entry_ids, reason)]


async def set_priority(tx: Tx, entry_id: UUID, priority: int) -> Any:
    return await tx.fetchrow(SET_PRIORITY, entry_id, priority)
