"""An event is cancelled: nothing more is sold, everybody gets their money back and a mail, whatever crashes meanwhile."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.ledger import check
from onceward.runtime import FEATURES
from onceward.testing import Crash, give_back
from onceward.trust import verify
from onceward.work import gate
from onceward_apps.ticketing import after_sale, cancellations, checkout_payments, checks, workflows
from onceward_apps.ticketing import app as TICKETING
from onceward_apps.ticketing.errors import NotFound, NotOnSale
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from tests.ticketing.crashing import CrashAt
from tests.ticketing.office import Office, Show
from tests.ticketing.test_edge_cases import assert_given_back, paid_at_stripe

SECTIONS = (
    Section(name="Hall", price_cents=10000, rows={"A": 8}),
    Section(name="Children", price_cents=0, places=10),
)


@dataclass
class Sold:
    """Two paid orders, one that cost nothing, and one that is just being bought."""

    office: Office
    show: Show
    paid: list[Any]
    free: Any
    open: Any

    async def cancel(self, reason: str = "The stage was flooded.") -> Any:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return await cancellations.cancel(tx, self.show.id, reason=reason, actor="test")

    async def progress(self) -> Any:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return await cancellations.progress(tx, self.show.id)


async def sell(office: Office) -> Sold:
    show = await office.show(sections=SECTIONS, policy=Policy(tax_bps=1550, fee_bps=333))
    paid: list[Any] = []
    for labels in (("Hall A1", "Hall A2"), ("Hall A3",)):
        checkout = await office.checkout(show, *labels)
        assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
        paid.append(checkout)
    children = await office.db.fetchval(
        "select id from ticketing.sections where event_id = $1 and name = 'Children'", show.id
    )
    free = await office.checkout(show, places={children: 2})
    await checkout_payments.open_payment(office.engine, show.organization, free["id"], "stripe")
    return Sold(office, show, paid, free, await office.checkout(show, "Hall A5"))


@pytest.fixture
async def sold(office: Office) -> Sold:
    await office.source()
    made = await sell(office)
    await office.drain()
    return made


async def finish(office: Office, *, minutes: float = 1) -> None:
    await office.drain()
    await office.later(minutes=minutes)
    await office.drain()


async def assert_all_is_well(office: Office) -> None:
    assert [result for result in await verify(office.db, checks.CHECKS) if not result.ok] == []
    async with office.db.acquire() as conn:
        assert await check(conn) == []


async def test_everybody_gets_their_money_back_and_one_mail(sold: Sold) -> None:
    office, show = sold.office, sold.show
    found = await sold.cancel()
    assert (found["orders"], found["orders_left"], found["checkouts_open"]) == (3, 3, 1)
    await finish(office)
    done = await sold.progress()
    assert (done["orders_left"], done["checkouts_open"], done["workflow_state"]) == (0, 0, "success")
    assert (done["refunds_pending"], done["refunds_done"], done["refunds_failed"]) == (0, 2, 0)
    assert done["refunded_cents"] == sum(each["total_cents"] for each in sold.paid)
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status <> 'void'") == 0
    assert await office.balance(show, "cash") == 0
    assert [await office.status(each) for each in (*sold.paid, sold.free)] == ["refunded"] * 3
    assert await office.status(sold.open) == "abandoned"
    mails = await office.db.fetch("select key from onceward.messages where template = 'event-cancelled'")
    orders = (*sold.paid, sold.free)
    assert {row["key"] for row in mails} == {f"checkout:{each['id']}:event-cancelled" for each in orders}
    assert await office.db.fetchval("select count(*) from onceward.messages where template = 'order-refunded'") == 0
    [notice] = [row for row in await office.notices() if row["type"] == "EVENT_CANCELLED"]
    assert (notice["severity"], notice["details"]["refunds_done"]) == ("info", 2)
    published = "select count(*) from onceward.published where type = 'event.cancelled'"
    assert await office.db.fetchval(published) == 1
    await assert_all_is_well(office)


async def test_cancelling_twice_is_once(sold: Sold) -> None:
    first, second = await asyncio.gather(sold.cancel(), sold.cancel("again"))
    assert first["workflow_id"] == second["workflow_id"]
    await finish(sold.office)
    assert (await sold.cancel())["workflow_state"] == "success"
    await finish(sold.office, minutes=2)
    assert len(sold.office.stripe.books.refunds) == 2


async def test_nothing_is_sold_any_more(sold: Sold) -> None:
    office, show = sold.office, sold.show
    await sold.cancel()
    with pytest.raises(NotOnSale):
        await office.hold(show, "Hall A6")
    with pytest.raises(NotOnSale):
        await checkout_payments.open_payment(office.engine, show.organization, sold.open["id"], "stripe")
    with pytest.raises(NotFound):
        async with office.engine.transaction(organization=await office.organization("other")) as tx:
            await cancellations.cancel(tx, show.id, reason="not theirs", actor="test")


@pytest.mark.parametrize("worked_off", [False, True])
async def test_a_payment_that_comes_after_is_refunded_with_400_once(office: Office, worked_off: bool) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    async with office.engine.transaction(organization=show.organization) as tx:
        await cancellations.cancel(tx, show.id, reason="rain", actor="test")
    if worked_off:
        await finish(office)
        await office.db.execute("truncate onceward.notices")
    payload = await office.charge(checkout, payment_intent=await paid_at_stripe(office, checkout))
    told = await office.webhook(payload)
    assert (told.status, told.json["error"]) == (400, "event_cancelled")
    assert (await office.webhook(payload)).status == 200
    if worked_off:
        await assert_given_back(office, show, checkout, reason="event_cancelled", audience="admin")
    assert await office.tickets(checkout) == []


async def test_a_sale_under_way_while_the_event_is_cancelled_is_refunded_with_the_others(office: Office) -> None:
    """The sale has read that the event is on sale, and commits after: cancelling waits for it, and finds it."""
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    paid = await paid_at_stripe(office, checkout)
    inside, go_on = asyncio.Event(), asyncio.Event()
    from onceward_apps.ticketing.store import sales

    read = sales.items

    async def pause(tx: Any, *values: Any) -> Any:
        inside.set()
        await go_on.wait()
        return await read(tx, *values)

    async def cancel() -> Any:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await cancellations.cancel(tx, show.id, reason="rain", actor="test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sales, "items", pause)
        sale = asyncio.create_task(office.pay(checkout, payment_intent=paid))
        await inside.wait()
        cancelled = asyncio.create_task(cancel())
        waits = "select count(*) from pg_locks l join pg_stat_activity a using (pid) where not granted and datname = current_database()"
        async with asyncio.timeout(10):
            while not await office.db.fetchval(waits):
                await asyncio.sleep(0.01)
        assert not cancelled.done()
        go_on.set()
        assert (await sale).status == 200
    assert (await cancelled)["orders_left"] == 1
    await finish(office)
    assert await office.status(checkout) == "refunded"
    assert await office.balance(show, "cash") == 0


async def test_what_was_refunded_before_is_not_refunded_again(sold: Sold) -> None:
    office, show = sold.office, sold.show
    [ticket, _] = await office.tickets(sold.paid[0])
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.refund(tx, sold.paid[0]["id"], tickets=[ticket["id"]], reason="asked", actor="test")
    await office.drain()
    await sold.cancel()
    await finish(office)
    assert sum(each["amount"] for each in office.stripe.books.refunds.values()) == sum(
        each["total_cents"] for each in sold.paid
    )
    assert await office.balance(show, "cash") == 0
    await assert_all_is_well(office)


async def test_the_new_holder_of_a_ticket_is_notified_and_the_buyer_gets_the_money(sold: Sold) -> None:
    office, show = sold.office, sold.show
    [ticket] = await office.tickets(sold.paid[1])
    async with office.engine.transaction(organization=show.organization) as tx:
        new = await after_sale.transfer(tx, ticket["id"], email="sipho@example.org", name="Sipho", actor="buyer")
    await sold.cancel()
    await finish(office)
    mail = "select data from onceward.messages where key = $1"
    told = await office.db.fetchval(mail, f"ticket:{new}:event-cancelled")
    assert (told["name"], told["amount_cents"]) == ("Sipho", 0)
    paid = await office.db.fetchval(mail, f"checkout:{sold.paid[1]['id']}:event-cancelled")
    assert paid["amount_cents"] == sold.paid[1]["total_cents"]


async def test_an_order_that_cannot_be_refunded_is_reported_and_does_not_hold_up_the_others(sold: Sold) -> None:
    office = sold.office
    refund = after_sale.cancel_order

    async def broken(tx: Any, checkout_id: Any, **options: Any) -> Any:
        if checkout_id == sold.paid[0]["id"]:
            raise ValueError("this one is odd")
        return await refund(tx, checkout_id, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(after_sale, "cancel_order", broken)
        await sold.cancel()
        for minutes in range(1, 30, 3):
            await finish(office, minutes=minutes)
    [notice] = [row for row in await office.notices() if row["type"] == "EVENT_CANCELLED"]
    assert (notice["severity"], notice["audience"]) == ("error", "accounting")
    assert notice["details"]["orders_failed"] == [str(sold.paid[0]["id"])]
    assert await office.status(sold.paid[1]) == "refunded"


async def test_a_large_event_goes_on_in_new_histories(sold: Sold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflows, "PAGE", 1)
    await sold.cancel()
    await finish(sold.office)
    done = await sold.progress()
    assert (done["orders_left"], done["refunds_done"], done["workflow_state"]) == (0, 2, "success")


# -- crashes ---------------------------------------------------------------------------------------------------------


async def seen(sold: Sold) -> dict[str, Any]:
    """All that cancelling leaves behind for one event."""
    office, show = sold.office, sold.show
    orders = [each["id"] for each in (*sold.paid, sold.free)]
    payments = await office.db.fetch(
        "select charge from onceward.payments where subject_id = any($1)", [str(each) for each in orders]
    )
    ids = {row[0] for row in payments}
    made = [each for each in office.stripe.books.refunds.values() if each["payment_intent"] in ids]
    one = office.db.fetchval
    return {
        "progress": {
            name: value
            for name, value in dict(await sold.progress()).items()
            if name not in ("event_id", "cancelled_at", "workflow_id")
        },
        "orders": [await office.status(each) for each in (*sold.paid, sold.free, sold.open)],
        "valid": await one("select count(*) from ticketing.tickets where event_id = $1 and status <> 'void'", show.id),
        "sold": await one("select count(*) from ticketing.seats where event_id = $1 and status = 'sold'", show.id),
        "made": sorted(each["amount"] for each in made),
        "mails": await one("select count(*) from onceward.messages where template = 'event-cancelled' and key = any($1)",
                           [f"checkout:{id}:event-cancelled" for id in orders]),
        "published": await one(
            "select count(*) from onceward.published where key = $1", f"event:{show.id}:cancelled"
        ),
        "notices": await one(
            "select count(*) from onceward.notices where type = 'EVENT_CANCELLED' and details ->> 'event' = $1",
            str(show.id),
        ),
        "audited": await one(
            "select count(*) from onceward.audit_log where entity_id = $1 and action = 'event_cancelled'", str(show.id)
        ),
        "cash": await office.balance(show, "cash"),
    }  # fmt: skip


@pytest.mark.timeout(240)
async def test_cancelling_killed_at_every_commit_goes_on_where_it_was_and_comes_out_the_same(
    office: Office, thorough: bool
) -> None:
    """The short run crashes at the first and the last occurrence of each gate, the thorough one at every occurrence."""
    await office.source()

    async def once(at: int | None, minutes: float) -> tuple[list[str], dict[str, Any]]:
        sold = await sell(office)
        await office.drain()
        await sold.cancel()
        counter = CrashAt(at)
        for number in range(3):
            gate.hook = counter
            try:
                await office.drain()
            except Crash:
                gate.hook = None
                await give_back(office.engine)
                await office.drain()
            finally:
                gate.hook = None
            await office.later(minutes=minutes + number)
        return counter.passed, await seen(sold)

    points, expected = await once(None, 1)
    assert expected["progress"]["workflow_state"] == "success"
    assert expected["orders"] == ["refunded", "refunded", "refunded", "abandoned"]
    assert (expected["cash"], expected["mails"], expected["notices"]) == (0, 3, 1)
    assert 20 < len(points) < 160, points
    last = {name: n for n, name in enumerate(points, 1)}
    for n, name in enumerate(points, 1):
        if not thorough and name in points[: n - 1] and last[name] != n:
            continue
        _, found = await once(n, 1 + 5 * n)
        assert found == expected, f"a crash at {n} ({points[n - 1]}) changed the outcome"
    await assert_all_is_well(office)


# -- at the command line -----------------------------------------------------------------------------------------------


def test_an_organizer_cancels_at_the_command_line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    cli, runner = build(FEATURES.plus(TICKETING.features())), CliRunner()

    def onceward(*words: str, fails: bool = False) -> str:
        result = runner.invoke(cli, list(words), input="n\n")
        assert (result.exit_code != 0) == fails, result.output
        return result.output

    onceward("organizations", "add", "shop")
    venue = onceward("ticketing", "venue", "Hall", "-o", "shop").split()[-1]
    when = ("--starts", "2031-06-21T18:00:00+02:00", "--currency", "EUR")
    onceward("ticketing", "event", "Night", "-o", "shop", "--venue", venue, *when, "--places", "Lawn:15000:20")
    [event] = json.loads(onceward("ticketing", "events", "-o", "shop", "--json"))
    cancel = ("ticketing", "cancel-event", event["id"], "-o", "shop", "--reason", "rain")
    onceward(*cancel, fails=True)  # asked, and answered no
    onceward("ticketing", "cancellation", event["id"], "-o", "shop", fails=True)
    assert "refunds its 0 orders" in onceward(*cancel, "--yes")
    found = json.loads(onceward("ticketing", "cancellation", event["id"], "-o", "shop"))
    assert (found["status"], found["reason"], found["orders"]) == ("cancelled", "rain", 0)
