"""SQL for checkouts: places that are held for people who pay. A payment has the id of its checkout as its subject."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into learning.checkouts (id, user_id, cohort_id, invite_id, claim_id, browser) values ($1, $2, $3, $4, $5, $6)
returning *
"""
FIND = "select * from learning.checkouts where id = $1"
LOCK = "select * from learning.checkouts where id = $1 for update"
STARTED = """
select * from learning.checkouts
 where user_id = $1 and cohort_id = $2 and browser = $3 and status = 'started' for update
"""
ALL_STARTED = """
select * from learning.checkouts where user_id = $1 and cohort_id = $2 and status = 'started' order by id for update
"""
# One visitor after the other, so that the count holds until the place is taken.
LOCK_STRANGERS = "select pg_advisory_xact_lock(hashtextextended('learning.strangers:' || $1::uuid, 0))"
STRANGERS = """
select count(*) from learning.checkouts k join onceward.capacity_claims c on c.id = k.claim_id
 where k.cohort_id = $1 and k.browser <> '' and k.status = 'started' and c.state = 'held'
   and c.expires_at > onceward.now()
"""
HOLD = "update learning.checkouts set claim_id = $2 where id = $1"
WAIT = "update learning.checkouts set status = 'waiting' where id = $1 and status = 'started'"
END = """
update learning.checkouts set status = 'ended', ended_at = onceward.now() where id = $1 and status <> 'ended'
returning *
"""
IS_WAITING = "select from learning.checkouts where user_id = $1 and cohort_id = $2 and status = 'waiting' limit 1"
IS_EXTENDING = """
select from onceward.payments p
 where p.organization_id = onceward.organization() and p.subject_type = 'extension' and p.subject_id = $1::uuid::text
   and p.status = 'processing' limit 1
"""
OF_USER = """
select k.cohort_id, 'enrollment' as kind, c.name as cohort_name, k.created_at
  from learning.checkouts k join learning.cohorts c on c.id = k.cohort_id
 where k.user_id = $1 and k.status = 'waiting'
union all
select e.cohort_id, 'extension', c.name, p.created_at
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id
  join onceward.payments p on p.organization_id = e.organization_id and p.subject_type = 'extension'
       and p.subject_id = e.id::text and p.status = 'processing'
 where e.user_id = $1
 order by created_at
"""


async def add(
    tx: Tx,
    *,
    checkout_id: UUID,
    user_id: UUID,
    cohort_id: UUID,
    invite_id: UUID | None,
    claim_id: int | None,
    browser: str,
) -> Any:
    return await tx.fetchrow(ADD, checkout_id, user_id, cohort_id, invite_id, claim_id, browser)


async def find(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(FIND, checkout_id)


async def lock(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(LOCK, checkout_id)


async def started(tx: Tx, user_id: UUID, cohort_id: UUID, browser: str) -> Any:
    """Return the checkout that the person, or this browser, has started. The caller has locked the user."""
    return await tx.fetchrow(STARTED, user_id, cohort_id, browser)


async def all_started(tx: Tx, user_id: UUID, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(ALL_STARTED, user_id, cohort_id)


async def held_by_strangers(tx: Tx, cohort_id: UUID) -> int:
    """Return how many places visitors hold who are not signed in, until their pages end. The number is locked."""
    await tx.execute(LOCK_STRANGERS, cohort_id)
    return await tx.fetchval(STRANGERS, cohort_id)


async def hold(tx: Tx, checkout_id: UUID, claim_id: int) -> None:
    await tx.execute(HOLD, checkout_id, claim_id)


async def wait(tx: Tx, checkout_id: UUID) -> None:
    """Record that the person has paid with a method that takes days."""
    await tx.execute(WAIT, checkout_id)


async def end(tx: Tx, checkout_id: UUID) -> Any:
    """Return the checkout that has ended now; None if it had ended before, or does not exist."""
    return await tx.fetchrow(END, checkout_id)


async def is_waiting(tx: Tx, user_id: UUID, cohort_id: UUID) -> bool:
    """Return whether a payment of the person for the cohort is being processed."""
    return await tx.fetchrow(IS_WAITING, user_id, cohort_id) is not None


async def is_extending(tx: Tx, enrollment_id: UUID) -> bool:
    """Return whether a payment for more access is being processed."""
    return await tx.fetchrow(IS_EXTENDING, enrollment_id) is not None


async def waiting_of_user(tx: Tx, user_id: UUID) -> list[Any]:
    return await tx.fetch(OF_USER, user_id)
