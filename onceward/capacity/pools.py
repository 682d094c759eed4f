"""Open pools, read them and change their capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import asyncpg

from onceward.capacity.errors import PoolExists, UnknownPool
from onceward.capacity.model import Pool, Total
from onceward.db import Database, Transaction
from onceward.statements import read_statement

OPEN = "select onceward.capacity_open($1, $2, $3, $4)"
RESIZE = "select onceward.capacity_resize($1, $2)"
TOTAL = "select capacity, held, sold from onceward.capacity_total($1, $2)"
LOOK = read_statement("capacity", "read_pool")


async def open_pool(
    tx: Transaction,
    key: str,
    *,
    capacity: int | None = None,
    units: Sequence[str] | None = None,
    group: str | None = None,
) -> Pool:
    """Open a pool. With `units`, every claim must name one of them; `capacity` defaults to their number.

    `total` returns the sums of all pools with the same `group`, at the same cost for any number of pools.
    """
    if capacity is None and units is not None:
        capacity = len(units)
    _check(key, capacity)
    if group is not None and not 1 <= len(group) <= 200:
        raise ValueError(f"the group of pool {key!r} must have 1 to 200 characters, not {len(group)}")
    try:
        pool_id = await tx.fetchval(OPEN, key, capacity, None if units is None else list(units), group)
    except asyncpg.UniqueViolationError as error:
        raise ValueError(f"units of pool {key!r} contains a unit twice") from error
    if pool_id is None:
        raise PoolExists(f"pool {key!r} is already open: use resize to change its capacity")
    return Pool(cast(int, pool_id), key, capacity, 0, 0, units is not None)


async def resize(tx: Transaction, key: str, *, capacity: int | None) -> Pool:
    """Set the capacity. Claims above a lowered capacity stay valid; new claims are refused until there is room."""
    _check(key, capacity)
    if await tx.fetchval(RESIZE, key, capacity) is None:
        raise UnknownPool(f"there is no pool {key!r}")
    return await look(tx, key)


async def look(tx: Transaction, key: str) -> Pool:
    """Return the current state of a pool. Another transaction may claim a free place first: only `claim` decides."""
    row = await tx.fetchrow(LOOK, tx.organization, key)
    if row is None:
        raise UnknownPool(f"there is no pool {key!r}")
    return Pool(row["id"], row["key"], row["capacity"], int(row["held"]), row["sold"], row["named"])


async def total(tx: Transaction, group: str) -> Total:
    """Return the totals of all pools of a group, with what this transaction claimed. An unknown group has nothing."""
    row = await tx.fetchrow(TOTAL, tx.organization, group)
    assert row is not None
    return Total(row["capacity"], row["held"], row["sold"])


async def reap(db: Database, *, pools: int = 100) -> int:
    """End the expired holds of at most `pools` pools, and return their number. Claims do not depend on it."""
    return cast(int, await db.fetchval("select onceward.capacity_reap($1)", pools))


def _check(key: str, capacity: int | None) -> None:
    if not 1 <= len(key) <= 200:
        raise ValueError(f"the key of a pool must have 1 to 200 characters, not {len(key)}")
    if capacity is not None and (isinstance(capacity, bool) or not 0 <= capacity <= 2**31 - 1):
        raise ValueError(f"capacity of {key!r} is {capacity}: it must be 0 (closed) or more, or None (unlimited)")
