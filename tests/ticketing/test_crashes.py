"""A sale that is cut at every statement and every commit, delivered again, comes out the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from onceward_apps.ticketing import box_office, settlements
from onceward_apps.ticketing.box_office import Sale, StatementLine
from onceward_apps.ticketing.errors import SeatTaken
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from tests.ticketing.crashing import crash_at_each_statement, deliver, rows_of
from tests.ticketing.office import Office, Show

LEFT = """
ticketing.checkouts ticketing.checkout_items ticketing.seat_holds ticketing.seats ticketing.pools ticketing.tickets
ticketing.transfers ticketing.settlements onceward.capacity_claims onceward.capacity_pools onceward.payments
onceward.payment_shares onceward.payment_journals onceward.payment_refunds onceward.ledger_accounts
onceward.ledger_journals onceward.ledger_entries onceward.work onceward.jobs onceward.messages onceward.published
onceward.audit_log
"""
"""The tables that a sale or a payout writes."""


async def seen(office: Office, checkout: Any) -> dict[str, Any]:
    """All that a sale leaves behind, in numbers."""
    one = office.db.fetchval
    id, text = checkout["id"], str(checkout["id"])
    return {
        "status": await office.status(checkout),
        "tickets": len(await office.tickets(checkout)),
        "images": await one("select count(qr_code_url) from ticketing.tickets where checkout_id = $1", id),
        "payments": await one(
            "select count(*) from onceward.payments where decision = 'accepted' and subject_id = $1", str(id)
        ),
        "entries": await one(
            "select count(*) from onceward.ledger_entries e join onceward.ledger_journals j on j.id = e.journal_id"
            " where j.key = $1",
            f"checkout:{id}:sale",
        ),
        "messages": await one("select count(*) from onceward.messages where key like $1", f"checkout:{id}%"),
        "published": await one("select count(*) from onceward.published where key = $1", f"checkout:{id}:completed"),
        "audited": await one("select count(*) from onceward.audit_log where entity_id = $1", text),
        "counted": await one("select count(*) from ticketing.purchases_counted where checkout_id = $1", id),
    }


async def sell(office: Office, show: Show, row: int, at: int | None) -> tuple[list[str], dict[str, Any]]:
    checkout = await office.checkout(show, f"Hall R{row}-1", f"Hall R{row}-2")
    passed = await deliver(office, await office.charge(checkout), at)
    return passed, await seen(office, checkout)


@pytest.mark.timeout(240)
async def test_a_sale_killed_at_every_statement_and_commit_and_redelivered_comes_out_the_same(office: Office) -> None:
    await office.source()
    rows = {f"R{n}-": 2 for n in range(120)}
    show = await office.show(sections=(Section(name="Hall", price_cents=100, rows=rows),))
    points, expected = await sell(office, show, 0, None)
    assert expected["status"] == "completed"
    assert expected["images"] == expected["tickets"] == 2
    assert {"inline-inserted", "inline-before-commit", "inline-after-commit"} <= set(points)
    assert 20 < len(points) < 115, points
    for n in range(1, len(points) + 1):
        _, found = await sell(office, show, n, n)
        assert found == expected, f"a crash at {n} ({points[n - 1]}) changed the outcome"


async def test_a_box_office_sale_killed_at_every_statement_leaves_nothing_and_sells_once_when_repeated(
    office: Office,
) -> None:
    show = await office.show()
    sale = Sale(how="cash", seats=["Stalls A1", "Stalls A2"], email="buyer@example.org")

    async def sell_at_the_counter() -> Any:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await box_office.sell(tx, show.id, sale, actor="test")

    points = await crash_at_each_statement(office, sell_at_the_counter, tables=LEFT)
    assert len(points) > 20, points
    with pytest.raises(SeatTaken):  # the staff did not see the answer and tries again
        await sell_at_the_counter()
    await office.drain()
    [order] = await office.db.fetch("select * from ticketing.checkouts where status = 'completed'")
    found = await seen(office, order)
    assert (found["status"], found["tickets"], found["payments"], found["published"]) == ("completed", 2, 1, 1)
    assert await office.balance(show, "by_hand") == order["total_cents"]
    await office.assert_sound()


async def test_a_bank_transfer_killed_at_every_statement_pays_its_order_once_when_repeated(office: Office) -> None:
    show = await office.show()
    sale = Sale(how="transfer", seats=["Stalls A1"], email="buyer@example.org")
    async with office.engine.transaction(organization=show.organization) as tx:
        order = await box_office.sell(tx, show.id, sale, actor="test")
    amount = order["total_cents"]
    lines = [StatementLine(line="b-1", amount_cents=amount, currency="EUR", memo=order["transfer_reference"])]

    async def record() -> Any:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await box_office.match(tx, lines, actor="test")

    points = await crash_at_each_statement(office, record, tables=LEFT)
    assert len(points) > 15, points
    [row] = (await record()).rows
    await office.drain()
    assert row["outcome"] == "sold"
    found = await seen(office, order)
    assert (found["status"], found["tickets"], found["payments"], found["published"]) == ("completed", 1, 1, 1)
    assert await office.balance(show, "by_hand") == amount
    await office.assert_sound()


async def test_a_settlement_and_its_payout_killed_at_every_statement_are_booked_once_when_repeated(
    office: Office,
) -> None:
    await office.source()
    show = await office.show(policy=Policy(fee_bps=1000))
    checkout = await office.checkout(show, "Stalls A1")
    await office.pay(checkout)
    await office.drain()
    until = await office.db.fetchval("select onceward.now()")
    await office.later(hours=2)
    terms: dict[str, Any] = {"currency": "EUR", "actor": "test"}
    settle = partial(settlements.settle, office.engine, show.organization, until=until, **terms)
    pay_out = partial(settlements.pay_out, office.engine, show.organization, number=1, reference="SEPA 1", **terms)
    assert len(await crash_at_each_statement(office, settle, tables=LEFT)) > 5
    assert len(await crash_at_each_statement(office, pay_out, tables=LEFT)) > 3
    done = await rows_of(office, LEFT)
    await settle()
    await pay_out()
    assert await rows_of(office, LEFT) == done
    actions = await office.db.fetch(
        "select action from onceward.audit_log where entity_type = 'Settlement' order by id"
    )
    assert [row["action"] for row in actions] == ["settlement_made", "settlement_paid"]
    assert await office.balance(show, "cash") == 0
    assert await office.balance(show, "bank") == checkout["total_cents"] - checkout["platform_fee_cents"]
    await office.assert_sound()
