"""The live seat map equals the seats after every step, sends differences, and costs the same in a large house."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from onceward.live import LiveNode
from onceward.live.difference import apply
from onceward.live.protocol import Drop, Hello, Subscribe
from onceward.money import Money
from onceward.payments.reports import Origin, apply_facts
from onceward.payments.service import PaymentReport
from onceward.testing import until
from onceward_apps.ticketing import after_sale, baskets, checks, event_setup
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.store import baskets as rows
from tests.ticketing.office import Office, Show

HOUSE = (
    Section(name="Stalls", price_cents=5000, rows={f"{row}-": 40 for row in range(30)}),
    Section(name="Lawn", price_cents=1000, places=20),
)
FRESH = """
select section_id::text as section,
       string_agg(case when status = 'sold' then 's' when status = 'blocked' then 'x'
                       when status = 'held' and held_until > onceward.clock() then 'h' else 'f' end, ''
                  order by ordinal) as states
  from ticketing.seats where event_id = $1 group by section_id
"""
LEFT = """
select p.capacity - p.held - p.sold from ticketing.pools t join onceward.capacity_pools p on p.id = t.pool_id
 where t.event_id = $1 and t.row_name is null
"""


class Viewer:
    """A client of the live map that keeps its result as a browser does."""

    def __init__(self, office: Office, show: Show, node: LiveNode) -> None:
        self.office, self.show, self.node = office, show, node
        self.data: Any = None
        self.hash: str | None = None
        self.differences: list[int] = []
        self.connection = node.service.welcome(
            None, Hello(None, None, None), self.send, client="127.0.0.1", transport="websocket"
        )

    async def subscribe(self) -> None:
        arguments = {"event_id": str(self.show.id)}
        await self.node.service.answer(self.connection, Subscribe(1, "ticketing.seats", arguments, self.hash))

    async def send(self, text: str) -> None:
        message = orjson.loads(text)
        for each in message["messages"] if message["type"] == "batch" else [message]:
            for result in each.get("results", ()):
                if "changes" in result:
                    assert result["from"] == self.hash
                    self.data = apply(self.data, result["changes"])
                    self.differences.append(len(text))
                elif "data" in result:
                    self.data = result["data"]
                self.hash = result.get("hash", self.hash)

    async def shows_the_seats(self) -> None:
        """Wait until the map equals a fresh look at all seats and places."""

        async def equal() -> bool:
            fresh = {row["section"]: row["states"] for row in await self.office.db.fetch(FRESH, self.show.id)}
            left = await self.office.db.fetchval(LEFT, self.show.id)
            return (
                self.data is not None and self.data["seats"] == fresh and list(self.data["places"].values()) == [left]
            )

        await until(equal)


@pytest.fixture
async def show(office: Office) -> Show:
    return await office.show(sections=HOUSE)


@pytest.fixture
async def viewer(office: Office, show: Show) -> AsyncIterator[Viewer]:
    await office.source()
    office.engine.wakes_live = True
    node = LiveNode(office.db, office.app.live, waker=office.engine.waker)
    await node.start()
    made = Viewer(office, show, node)
    await made.subscribe()
    await made.shows_the_seats()
    yield made
    await node.stop()


async def test_the_map_equals_the_seats_after_every_step_and_sends_what_changed(
    office: Office, show: Show, viewer: Viewer
) -> None:
    lawn = await office.db.fetchval(
        "select id from ticketing.sections where event_id = $1 and kind = 'general'", show.id
    )
    checkout = await office.checkout(show, "Stalls 0-1", "Stalls 0-2", "Stalls 29-40", places={lawn: 2})
    await viewer.shows_the_seats()
    assert (await office.pay(checkout)).status == 200
    await viewer.shows_the_seats()
    basket = await office.hold(show, "Stalls 3-7")
    await viewer.shows_the_seats()
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.let_go(tx, show.id, basket)
        await event_setup.block_seats(tx, show.id, ["Stalls 4-1"], actor="test")
    await viewer.shows_the_seats()
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_setup.unblock_seats(tx, show.id, ["Stalls 4-1"], actor="test")
        await after_sale.refund(tx, checkout["id"], reason="ill", actor="test")
    await viewer.shows_the_seats()
    assert viewer.data["seats"] == {next(iter(viewer.data["seats"])): "f" * 1200}
    assert viewer.differences
    assert max(viewer.differences) < 600


async def test_an_expired_hold_is_free_on_the_map_before_and_after_a_job_marks_it(
    office: Office, show: Show, viewer: Viewer
) -> None:
    await office.db.execute("update ticketing.events set hold_s = 30 where id = $1", show.id)
    await office.hold(show, "Stalls 3-7")
    await viewer.shows_the_seats()
    await office.later(minutes=1)
    await office.hold(show, "Stalls 5-1")  # the clock of a test jumps, so a change must make the query run
    await viewer.shows_the_seats()
    # Another buyer takes the seat: its status stays `held`, and the map must show it.
    await office.hold(show, "Stalls 3-7")
    await viewer.shows_the_seats()
    assert "h" in viewer.data["seats"][next(iter(viewer.data["seats"]))][120:160]
    await office.later(minutes=1)
    async with office.engine.transaction(organization=show.organization) as tx:
        await rows.expire_holds(tx)
    await viewer.shows_the_seats()


async def test_a_viewer_that_missed_changes_gets_the_whole_map(office: Office, show: Show, viewer: Viewer) -> None:
    await viewer.node.service.answer(viewer.connection, Drop(1))
    for seat in range(1, 4):
        await office.hold(show, f"Stalls 0-{seat}")
        await asyncio.sleep(0)
    await viewer.subscribe()
    await viewer.shows_the_seats()


async def test_parallel_changes_of_one_row_all_show(office: Office, show: Show) -> None:
    """The rows are changed by position, under their lock. The twin writes a row as it was read before."""
    await asyncio.gather(*(office.hold(show, f"Stalls 1-{seat}") for seat in range(1, 9)))
    assert await _differences(office) == []
    body = await office.db.fetchval("select pg_get_functiondef('ticketing.show_seats()'::regprocedure)")
    twin = body.replace("ticketing.put_letters(states,", "ticketing.put_letters(changed.before,").replace(
        "select b.pool_id,",
        "select b.pool_id, (select p.states from ticketing.pools p, pg_sleep(0.05) where p.pool_id = b.pool_id) as before,",
    )
    assert twin.count("before") > 1
    await office.db.execute(twin)
    seats = await office.seats(show, *(f"Stalls 2-{seat}" for seat in range(1, 9)))
    touch = "update ticketing.seats set status = 'blocked' where id = $1"
    await asyncio.gather(*(office.db.execute(touch, seat) for seat in seats))
    assert len(await _differences(office)) == 1


async def _differences(office: Office) -> list[Any]:
    return await office.db.fetch(checks.SEAT_MAP, 10)


READ = """
select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int from pg_stat_xact_user_tables
 where schemaname = 'ticketing' or relname like 'capacity%'
"""


async def test_hold_checkout_and_sale_do_not_read_all_rows_of_a_house(office: Office) -> None:
    """600 seats in 60 rows, a hold in each. The planner may read a small table whole, so the limits are not exact."""
    await office.source()
    section = Section(name="Hall", price_cents=5000, rows={f"{row}-": 10 for row in range(60)})
    show = await office.show(sections=(section,))
    for row in range(60):
        await office.hold(show, f"Hall {row}-9")
    await office.db.execute("analyze")
    hold, checkout, sale = await _rows_read(office, show)
    assert hold < 400  # fewer than the seats
    assert checkout < 120
    assert sale < 120  # fewer than a pool and a claim for each row


async def _rows_read(office: Office, show: Show) -> list[int]:
    """Return the rows read by a hold, a checkout and a sale. Without sequential scans, which small tables get."""
    seats, basket = await office.seats(show, "Hall 1-1", "Hall 1-2"), new_basket()
    counts: list[int] = []
    async with office.engine.transaction(organization=show.organization) as tx:
        await tx.execute("set local enable_seqscan = off")
        before = await tx.fetchval(READ)
        await baskets.hold(tx, show.id, basket, seats=seats)
        counts.append(await tx.fetchval(READ) - before)
    async with office.engine.transaction(organization=show.organization) as tx:
        await tx.execute("set local enable_seqscan = off")
        before = await tx.fetchval(READ)
        checkout = await baskets.start_checkout(tx, show.id, basket, baskets.Buyer(email="b@example.org"))
        counts.append(await tx.fetchval(READ) - before)
    payment_id = await office.page(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await tx.execute("set local enable_seqscan = off")
        before = await tx.fetchval(READ)
        paid = PaymentReport(
            state="paid",
            payment_id=payment_id,
            charge=f"pi_{checkout['id']}",
            received=Money(checkout["total_cents"], "EUR"),
        )
        assert await apply_facts(tx, Origin("payments-stripe"), (paid,)) == ["paid"]
        counts.append(await tx.fetchval(READ) - before)
    return counts
