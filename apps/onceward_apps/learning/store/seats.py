"""SQL of the seats that companies have bought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Query, Tx

ADD = """
insert into learning.seat_blocks (id, cohort_id, company, contact_email, email_domain, reference, token_hash)
values ($1, $2, $3, lower($4), lower($5), $6, $7) returning *
"""
BY_TOKEN = """
select b.*, (select count(*) from learning.seats s where s.block_id = b.id and s.enrollment_id is null) as free,
       c.name as cohort_name, c.status as cohort_status, c.starts_at, c.ends_at
  from learning.seat_blocks b join learning.cohorts c on c.id = b.cohort_id
 where b.token_hash = $1
"""
# Two people who take a seat at the same moment take two.
CHOOSE = """
select id, claim_id from learning.seats where block_id = $1 and enrollment_id is null order by id limit 1
   for update skip locked
"""
GIVE_BACK = """
with kept as (update learning.seats s set enrollment_id = null from learning.seat_blocks b
               where s.enrollment_id = $1 and b.id = s.block_id and b.ended_at is null returning s.id),
     gone as (delete from learning.seats s using learning.seat_blocks b
               where s.enrollment_id = $1 and b.id = s.block_id and b.ended_at is not null)
select exists (select from kept)
"""


async def add(
    tx: Tx,
    block_id: UUID,
    cohort_id: UUID,
    *,
    company: str,
    contact_email: str,
    email_domain: str | None,
    reference: str | None,
    token_hash: bytes,
    claims: Sequence[int],
) -> Any:
    row = await tx.fetchrow(ADD, block_id, cohort_id, company, contact_email, email_domain, reference, token_hash)
    await tx.execute(
        "insert into learning.seats (block_id, claim_id) select $1, unnest($2::bigint[])", block_id, list(claims)
    )
    return row


async def by_token(tx: Tx, token_hash: bytes) -> Any:
    return await tx.fetchrow(BY_TOKEN, token_hash)


async def find(tx: Tx | Query, block_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.seat_blocks where id = $1", block_id)


async def lock(tx: Tx, block_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.seat_blocks where id = $1 for update", block_id)


async def free(tx: Tx, block_id: UUID) -> int:
    return await tx.fetchval(
        "select count(*) from learning.seats where block_id = $1 and enrollment_id is null", block_id
    )


async def choose(tx: Tx, block_id: UUID) -> Any:
    """Return a free seat, locked. None: all are taken."""
    return await tx.fetchrow(CHOOSE, block_id)


async def take(tx: Tx, seat_id: int, enrollment_id: UUID) -> None:
    await tx.execute("update learning.seats set enrollment_id = $2 where id = $1", seat_id, enrollment_id)


async def give_back(tx: Tx, enrollment_id: UUID) -> bool:
    """Free the seat of an enrolment for the next person of the company. False: it has none, or its block ended."""
    return await tx.fetchval(GIVE_BACK, enrollment_id)


async def end(tx: Tx, block_id: UUID) -> list[int]:
    """End a block, and return the places of the seats that nobody has."""
    await tx.execute("update learning.seat_blocks set ended_at = onceward.now() where id = $1", block_id)
    rows = await tx.fetch(
        "delete from learning.seats where block_id = $1 and enrollment_id is null returning claim_id", block_id
    )
    return [row["claim_id"] for row in rows]


async def set_token(tx: Tx, block_id: UUID, token_hash: bytes) -> None:
    await tx.execute(
        "update learning.seat_blocks set token_hash = $2, link_sent_at = onceward.now() where id = $1",
        block_id,
        token_hash,
    )


async def was_sent_now(tx: Tx, block_id: UUID) -> bool:
    """Return whether a link was sent within the last minute."""
    return await tx.fetchval(
        "select link_sent_at > onceward.now() - interval '1 minute' from learning.seat_blocks where id = $1", block_id
    )


async def has_open(tx: Tx, cohort_id: UUID, company: str) -> bool:
    return await tx.fetchval(
        "select exists (select from learning.seat_blocks"
        " where cohort_id = $1 and lower(company) = lower($2) and ended_at is null)",
        cohort_id,
        company,
    )
