"""A buyer's bank or PayPal takes money back: recorded, booked, reported to accounting, tickets frozen by policy."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import orjson
import pytest

from onceward_apps.ticketing import after_sale, cancellations, disputes
from onceward_apps.ticketing.errors import NotRefundable
from onceward_apps.ticketing.event_setup import Section
from tests.ticketing.office import Office, Show
from tests.ticketing.test_after_sale import scan
from tests.ticketing.test_edge_cases import paid_at_stripe
from tests.ticketing.test_refund_states import deliver, sell_by_paypal
from tests.ticketing.test_refunds_elsewhere import Sold, paypal_webhook, refund, sell


@pytest.fixture
async def sold(office: Office) -> Sold:
    return await sell(office)


def about(type: str, dispute: Any) -> dict[str, Any]:
    copy = orjson.loads(orjson.dumps(dispute))
    return {"id": f"evt_{uuid4().hex}", "object": "event", "type": f"charge.dispute.{type}", "data": {"object": copy}}


async def opened(sold: Sold) -> Any:
    """A dispute about all of the payment, and both webhooks of its beginning."""
    office = sold[0]
    dispute = office.stripe.open_dispute(next(iter(office.stripe.books.intents)))
    for type in ("created", "funds_withdrawn"):
        assert (await office.webhook(about(type, dispute))).status == 200
    return dispute


async def closed(sold: Sold, dispute: Any, *, won: bool) -> None:
    office = sold[0]
    office.stripe.close_dispute(dispute["id"], won=won)
    for type in ("closed", *(["funds_reinstated"] if won else [])):
        assert (await office.webhook(about(type, dispute))).status == 200


async def assert_booked(sold: Sold, *, cash: int, disputed: int, lost: int) -> None:
    office, show, _ = sold
    assert await office.cash(show) == cash
    for account, amount in (("disputed_payments", disputed), ("dispute_losses", lost)):
        if amount:
            assert await office.balance(show, account) == amount, account
    await office.assert_sound()


async def told_of_disputes(office: Office) -> list[str]:
    return [each["type"] for each in await office.notices() if each["type"].startswith("DISPUTE_")]


async def test_a_dispute_takes_the_money_and_freezes_the_tickets(sold: Sold) -> None:
    office, show, checkout = sold
    await opened(sold)
    total = checkout["total_cents"]
    await assert_booked(sold, cash=0, disputed=total, lost=0)
    ticket, *_ = await office.tickets(checkout)
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "frozen"
    assert await told_of_disputes(office) == ["DISPUTE_OPEN"]
    assert await office.db.fetchval("select count(*) from ticketing.seats where status = 'sold'") == 3
    with pytest.raises(NotRefundable, match="disputed"):
        await refund(sold)
    with pytest.raises(NotRefundable, match="disputed"):
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.transfer(tx, ticket["id"], email="a@example.org", name="A", actor="buyer")


async def test_a_dispute_that_is_won_gives_the_money_and_the_tickets_back(sold: Sold) -> None:
    office, show, checkout = sold
    await closed(sold, await opened(sold), won=True)
    await assert_booked(sold, cash=checkout["total_cents"], disputed=0, lost=0)
    ticket, *_ = await office.tickets(checkout)
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "admitted"
    assert await told_of_disputes(office) == ["DISPUTE_OPEN", "DISPUTE_WON"]


async def test_a_dispute_that_is_lost_is_an_expense_and_voids_the_tickets(sold: Sold) -> None:
    office, _, checkout = sold
    dispute = await opened(sold)
    await closed(sold, dispute, won=False)
    await assert_booked(sold, cash=0, disputed=0, lost=checkout["total_cents"])
    assert await office.tickets(checkout) == []
    assert await office.db.fetchval("select count(*) from ticketing.seats where status = 'sold'") == 0
    # An older message that arrives late opens nothing again.
    assert (await office.webhook(about("updated", {**dispute, "status": "under_review"}))).status == 200
    assert await office.db.fetchval("select status from onceward.payment_disputes") == "lost"


async def test_an_event_may_keep_the_tickets_of_disputed_payments_valid(sold: Sold) -> None:
    office, show, checkout = sold
    async with office.engine.transaction(organization=show.organization) as tx:
        await disputes.set_policy(tx, show.id, "keep", actor="test")
    await closed(sold, await opened(sold), won=False)
    ticket, *_ = await office.tickets(checkout)
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "admitted"
    await assert_booked(sold, cash=0, disputed=0, lost=checkout["total_cents"])


async def test_an_inquiry_takes_no_money(sold: Sold) -> None:
    office, _, checkout = sold
    dispute = office.stripe.open_dispute(next(iter(office.stripe.books.intents)), inquiry=True)
    for type, status in (("created", "warning_needs_response"), ("closed", "warning_closed")):
        assert (await office.webhook(about(type, {**dispute, "status": status}))).status == 200
    await assert_booked(sold, cash=checkout["total_cents"], disputed=0, lost=0)
    assert await office.db.fetchval("select status from onceward.payment_disputes") == "won"


async def test_a_source_of_another_organization_cannot_open_a_dispute(office: Office) -> None:
    show = await office.show()
    other = await office.show(slug="other")
    await office.source()
    checkout = await office.checkout(show, "Stalls A1")
    assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
    await office.db.execute("update onceward.sources set organization_id = $1, changed_at = clock_timestamp()"
                            " where name = 'payments-stripe'", other.organization)  # fmt: skip
    await office.inbox.catalog.refresh()
    dispute = office.stripe.open_dispute(next(iter(office.stripe.books.intents)))
    assert (await office.webhook(about("created", dispute))).status == 200
    assert await office.db.fetchval("select count(*) from onceward.payment_disputes") == 0


# -- PayPal ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("won", [True, False])
async def test_a_dispute_at_paypal_is_followed_to_its_end(office: Office, won: bool) -> None:
    sold, capture = await sell_by_paypal(office)
    total = sold[2]["total_cents"]
    dispute = office.paypal.open_dispute(capture["id"])
    assert (await paypal_webhook(office, "CUSTOMER.DISPUTE.CREATED", dispute)).status == 200
    await assert_booked(sold, cash=0, disputed=total, lost=0)
    office.paypal.close_dispute(dispute["dispute_id"], won=won)
    for _ in range(2):
        assert (await paypal_webhook(office, "CUSTOMER.DISPUTE.RESOLVED", dispute)).status == 200
    if not won:  # PayPal also reports the transfer, which is not booked a second time
        reversal = next(
            each["resource"]
            for each in office.paypal.books.events.values()
            if each["event_type"] == "PAYMENT.CAPTURE.REVERSED"
        )
        assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REVERSED", reversal)).status == 200
    await assert_booked(sold, cash=total if won else 0, disputed=0, lost=0 if won else total)
    assert len(await office.tickets(sold[2])) == (2 if won else 0)


async def test_a_capture_that_paypal_reverses_is_booked_as_lost(office: Office) -> None:
    sold, capture = await sell_by_paypal(office)
    reversal = office.paypal.reverse(capture["id"])
    for _ in range(2):
        assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REVERSED", reversal)).status == 200
    await assert_booked(sold, cash=0, disputed=0, lost=sold[2]["total_cents"])
    assert await office.tickets(sold[2]) == []
    assert await told_of_disputes(office) == ["DISPUTE_LOST"]


async def test_a_changed_policy_counts_for_disputes_that_are_open(sold: Sold) -> None:
    """The tickets were frozen before, and stayed so for ever."""
    office, show, checkout = sold
    await opened(sold)
    ticket, other, *_ = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await disputes.set_policy(tx, show.id, "keep", actor="test")
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "admitted"
    async with office.engine.transaction(organization=show.organization) as tx:
        await disputes.set_policy(tx, show.id, "freeze", actor="test")
    assert (await scan(office, show, other["ticket_code"])).outcome == "frozen"
    await office.assert_sound()


@pytest.mark.parametrize("won", [True, False])
async def test_an_event_that_is_cancelled_during_a_dispute_admits_nobody_and_pays_once(sold: Sold, won: bool) -> None:
    office, show, checkout = sold
    tickets = await office.tickets(checkout)
    dispute = await opened(sold)
    async with office.engine.transaction(organization=show.organization) as tx:
        await cancellations.cancel(tx, show.id, reason="flood", actor="test")
    for _ in range(9):
        await office.drain()
        await office.later(days=2)
    async with office.engine.transaction(organization=show.organization) as tx:
        progress = await cancellations.progress(tx, show.id)
    assert (progress["disputes_open"], progress["refunds_done"], progress["orders_left"]) == (1, 0, 0)
    await closed(sold, dispute, won=won)
    await office.drain()
    assert (await scan(office, show, tickets[0]["ticket_code"])).outcome == "void"
    refunded = [row["amount"] for row in await office.refunds(checkout)]
    assert refunded == ([checkout["total_cents"]] if won else [])
    await assert_booked(sold, cash=0, disputed=0, lost=0 if won else checkout["total_cents"])


async def test_an_inquiry_at_paypal_that_was_refunded_is_not_lost_a_second_time(office: Office) -> None:
    """PayPal: inquiry, refund, then resolved for the buyer. The loss was posted on top of the refund."""
    sold, capture = await sell_by_paypal(office)
    total = sold[2]["total_cents"]
    dispute = office.paypal.open_dispute(capture["id"], stage="INQUIRY")
    assert (await paypal_webhook(office, "CUSTOMER.DISPUTE.CREATED", dispute)).status == 200
    await assert_booked(sold, cash=total, disputed=0, lost=0)
    await refund(sold)
    await office.drain()
    await assert_booked(sold, cash=0, disputed=0, lost=0)
    resolved = {**dispute, "status": "RESOLVED", "dispute_outcome": {"outcome_code": "RESOLVED_BUYER_FAVOUR"}}
    assert (await paypal_webhook(office, "CUSTOMER.DISPUTE.RESOLVED", resolved)).status == 200
    await assert_booked(sold, cash=0, disputed=0, lost=0)
    async with office.db.transaction(organization=sold[1].organization) as tx:
        lost = await tx.fetchval("select sum(balance) from onceward.ledger_balances where code = 'dispute_losses'")
    assert not lost


# -- crashes -----------------------------------------------------------------------------------------------------------


async def run_dispute(office: Office, show: Show, seat: int, at: int | None) -> tuple[list[list[str]], Any]:
    checkout = await office.checkout(show, f"Hall R-{seat}")
    intent = await paid_at_stripe(office, checkout)
    assert (await office.webhook(await office.charge(checkout, payment_intent=intent))).status == 200
    await office.drain()
    dispute = office.stripe.open_dispute(intent)
    passed = [await deliver(office, about("created", dispute), at)]
    office.stripe.close_dispute(dispute["id"], won=False)
    passed.append(await deliver(office, about("closed", dispute), at))
    found = await office.db.fetchrow(
        "select d.id, d.status, d.reference from onceward.payment_disputes d"
        " join onceward.payments p on p.id = d.payment_id where p.subject_id = $1",
        str(checkout["id"]),
    )
    assert found is not None
    one = office.db.fetchval
    return passed, {
        "status": found["status"],
        "tickets": len(await office.tickets(checkout)),
        "journals": await one(
            "select count(*) from onceward.ledger_journals where key like $1", f"dispute:{found['id']}%"
        ),
        "audited": await one("select count(*) from onceward.audit_log where entity_id = $1", str(found["id"])),
        "told": await one("select count(*) from onceward.notices where details ->> 'dispute' = $1", found["reference"]),
    }


@pytest.mark.timeout(240)
async def test_webhooks_of_a_dispute_killed_at_every_statement_come_out_the_same(office: Office) -> None:
    await office.source()
    show = await office.show(sections=(Section(name="Hall", price_cents=100, rows={"R-": 90}),))
    points, expected = await run_dispute(office, show, 1, None)
    assert expected == {"status": "lost", "tickets": 0, "journals": 2, "audited": 2, "told": 2}
    assert all(10 < len(each) < 70 for each in points), points
    for n in range(1, max(len(each) for each in points) + 1):
        assert (await run_dispute(office, show, n + 1, n))[1] == expected, f"a crash at {n} changed the outcome"
    await office.assert_sound()
