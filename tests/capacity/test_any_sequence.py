"""Any sequence of claims, sales, releases, expiries, resizes and crashes keeps every pool within its capacity."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from onceward.capacity import (
    CHECKS,
    CapacityRefused,
    Want,
    claim,
    convert,
    extend,
    look,
    open_pool,
    reap,
    release,
    resize,
)
from tests.capacity.test_claims import move_clock
from tests.state_machines import DatabaseMachine, check_machine

UNITS = ("A1", "A2", "A3")
HOLD = timedelta(minutes=5)


@dataclass
class Known:
    """A claim as the model remembers it; `ends` is in the model's minutes, None when sold, -1 when released."""

    ids: tuple[int, ...]
    pool: str
    quantity: int
    unit: str | None
    ends: float | None


class Shop(DatabaseMachine):
    minutes = 0.0  # the clock is the database's, so it goes on from one example to the next

    def __init__(self) -> None:
        super().__init__()
        self.organization = uuid.uuid4()
        self.known: list[Known] = []
        self.capacity: dict[str, int | None] = {"places": 3, "hall": len(UNITS)}
        self.run(self.open_pools())

    async def open_pools(self) -> None:
        async with self.db.transaction(organization=self.organization) as tx:
            await open_pool(tx, "places", capacity=3, group="house")
            await open_pool(tx, "hall", units=UNITS, group="house")

    # -- the model ---------------------------------------------------------------------------------------------

    def is_live(self, known: Known) -> bool:
        return known.ends is None or known.ends > type(self).minutes

    def taken(self, pool: str, *, but: Known | None = None) -> int:
        return sum(k.quantity for k in self.known if k.pool == pool and k is not but and self.is_live(k))

    def fits(self, pool: str, quantity: int, unit: str | None, *, but: Known | None = None) -> bool:
        capacity = self.capacity[pool]
        others = [k for k in self.known if k is not but and k.pool == pool and self.is_live(k)]
        free = capacity is None or self.taken(pool, but=but) + quantity <= capacity
        return free and (unit is None or all(k.unit != unit for k in others))

    # -- what can happen ---------------------------------------------------------------------------------------

    @rule(unit=st.sampled_from((None, None, *UNITS)), quantity=st.integers(1, 2), sold=st.booleans())
    def claim_something(self, unit: str | None, quantity: int, sold: bool) -> None:
        want = Want("places", quantity) if unit is None else Want("hall", unit=unit)

        async def buy() -> tuple[int, ...] | None:
            async with self.db.transaction(organization=self.organization) as tx:
                try:
                    got = await claim(tx, [want], holder=str(uuid.uuid4()), until=None if sold else HOLD)
                except CapacityRefused:
                    return None
                return got.ids

        ids = self.run(buy())
        assert (ids is not None) == self.fits(want.pool, want.quantity, want.unit)
        if ids is not None:
            ends = None if sold else type(self).minutes + 5
            self.known.append(Known(ids, want.pool, want.quantity, want.unit, ends))

    @precondition(lambda self: any(k.ends != -1 for k in self.known))
    @rule(data=st.data(), sell=st.booleans())
    def convert_or_extend(self, data: st.DataObject, sell: bool) -> None:
        known = data.draw(st.sampled_from([k for k in self.known if k.ends != -1]))
        reaped = self.run(
            self.db.fetchval("select state = 'expired' from onceward.capacity_claims where id = $1", known.ids[0])
        )

        async def renew() -> bool:
            async with self.db.transaction(organization=self.organization) as tx:
                try:
                    await (convert(tx, known.ids) if sell else extend(tx, known.ids, until=HOLD))
                except CapacityRefused:
                    return False
                return True

        done = self.run(renew())
        assert done == (not reaped or self.fits(known.pool, known.quantity, known.unit, but=known))
        if done and known.ends is not None:
            known.ends = None if sell else max(known.ends, type(self).minutes + 5)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def release_one(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self.known))

        async def give_back() -> None:
            async with self.db.transaction(organization=self.organization) as tx:
                await release(tx, known.ids)

        state = "select state from onceward.capacity_claims where id = $1"
        self.run(give_back())
        if self.run(self.db.fetchval(state, known.ids[0])) == "released":
            known.ends = -1

    @rule(minutes=st.floats(0.5, 6))
    def time_passes(self, minutes: float) -> None:
        type(self).minutes += minutes
        self.run(move_clock(self.db, minutes=type(self).minutes))

    @rule(capacity=st.sampled_from((0, 1, 3, 5, None)))
    def resize_places(self, capacity: int | None) -> None:
        async def change() -> None:
            async with self.db.transaction(organization=self.organization) as tx:
                await resize(tx, "places", capacity=capacity)

        self.run(change())
        self.capacity["places"] = capacity

    @rule()
    def sweep(self) -> None:
        self.run(reap(self.db))

    @rule()
    def crash_before_the_commit(self) -> None:
        async def crash() -> None:
            conn = await self.db.connect()
            await conn.execute(f"begin; set local onceward.organization = '{self.organization}'")
            await conn.fetch(
                "select * from onceward.capacity_claim('{places}', array[null::text], '{1}', 'crash', null, null)"
            )
            conn.terminate()

        self.run(crash())

    # -- what must hold ----------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_oversold(self) -> None:
        async def check() -> None:
            async with self.db.acquire() as conn:
                for rule_ in CHECKS:
                    assert await rule_.run(conn) == []
            async with self.db.transaction(organization=self.organization) as tx:
                for key in self.capacity:
                    pool = await look(tx, key)
                    assert pool.held + pool.sold == self.taken(key)

        self.run(check())


def test_any_sequence_keeps_every_pool_within_its_capacity(database_url: str, thorough: bool) -> None:
    check_machine(Shop, database_url, thorough=thorough)
