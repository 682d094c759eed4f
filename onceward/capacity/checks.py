"""Recount every pool from its claims and report every difference. Read-only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onceward.db import Connection
from onceward.trust.invariants import Check

LIMIT = 100
"""The number of differences that each check reports."""

COUNTERS = """
select format('pool %s (%s): the pool counts %s held and %s sold, its claims sum to %s and %s',
              p.id, p.key, p.held, p.sold, coalesce(c.held, 0), coalesce(c.sold, 0))
from onceward.capacity_pools p
left join (
    select pool_id, sum(quantity) filter (where state = 'held') as held,
           sum(quantity) filter (where state = 'sold') as sold
    from onceward.capacity_claims where state in ('held', 'sold') group by pool_id
) c on c.pool_id = p.id
where p.held <> coalesce(c.held, 0) or p.sold <> coalesce(c.sold, 0)
limit $1
"""
OVERSOLD = """
select format('pool %s (%s): %s held or sold, capacity %s', p.id, p.key, sum(c.quantity), p.capacity)
from onceward.capacity_pools p
join onceward.capacity_claims c on c.pool_id = p.id and c.state in ('held', 'sold')
where p.capacity is not null
group by p.id, p.key, p.capacity, p.kept
having sum(c.quantity) > greatest(p.capacity, p.kept)
limit $1
"""
UNITS = """
select format('pool %s: unit %s has %s live claims', pool_id, unit, count(*))
from onceward.capacity_claims
where unit is not null and state in ('held', 'sold')
group by pool_id, unit
having count(*) > 1
limit $1
"""
GUARDS = """
select format('capacity_claims: trigger %s is missing or disabled', t.guard)
from (values ('counted_in'), ('counted_over'), ('never_deleted')) as t (guard)
where not exists (
    select from pg_trigger g
    where g.tgrelid = 'onceward.capacity_claims'::regclass and g.tgname = t.guard and g.tgenabled in ('O', 'A'))
limit $1
"""


def _returns_no_rows(query: str) -> Callable[[Connection], Awaitable[list[str]]]:
    async def check(conn: Connection) -> list[str]:
        return [row[0] for row in await conn.fetch(query, LIMIT)]

    return check


CHECKS: tuple[Check, ...] = (
    Check("capacity.pools_count_their_claims", _returns_no_rows(COUNTERS)),
    Check("capacity.nothing_is_oversold", _returns_no_rows(OVERSOLD)),
    Check("capacity.a_unit_has_one_live_claim", _returns_no_rows(UNITS)),
    Check("capacity.counting_triggers_are_on", _returns_no_rows(GUARDS)),
)
"""The checks read all organizations, so they run as the engine."""
