"""A refund is booked when the buyer has the money, and opened again when the buyer does not."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from onceward_apps.ticketing import after_sale
from onceward_apps.ticketing.errors import NotRefundable
from tests.ticketing.crashing import deliver
from tests.ticketing.office import Office, Show
from tests.ticketing.test_refunds_elsewhere import (
    Sold,
    assert_the_books_are_right,
    paypal_webhook,
    refund,
    sell,
)

PUBLISHED = "select count(*) from onceward.published where type = $1"


@pytest.fixture
async def sold(office: Office) -> Sold:
    return await sell(office)


def refund_event(type: str, made: Any) -> dict[str, Any]:
    """What Stripe sends about one refund, in its present state."""
    copy = orjson.loads(orjson.dumps(made))
    return {"id": f"evt_{uuid4().hex}", "object": "event", "type": type, "data": {"object": copy}}


async def row(office: Office) -> Any:
    return await office.db.fetchrow("select * from onceward.payment_refunds order by created_at limit 1")


async def move(office: Office, status: str, **options: Any) -> dict[str, Any]:
    """The service changes its only refund; returns the webhook of that."""
    [made] = office.stripe.books.refunds.values()
    office.stripe.books.move_refund(made, status, **options)
    return refund_event("refund.failed" if status == "failed" else "refund.updated", made)


async def begin(sold: Sold, status: str) -> Any:
    """A full refund that the service accepts with this status."""
    office, _, _ = sold
    office.stripe.books.next_refund_statuses.append(status)
    refund_id = await refund(sold)
    await office.drain()
    return refund_id


async def told_accounting(office: Office) -> list[str]:
    return [each["type"] for each in await office.notices() if each["audience"] == "accounting"]


async def assert_settled(sold: Sold) -> None:
    """The buyer has the money from us, the payment service still has it."""
    office, show, checkout = sold
    assert await office.balance(show, "cash") == checkout["total_cents"]
    assert await office.balance(show, "bank") == -checkout["total_cents"]
    assert await office.balance(show, "refunds_payable") == 0
    await office.assert_sound()


@pytest.mark.parametrize("status", ["pending", "requires_action"])
async def test_a_refund_that_is_pending_at_the_service_is_not_booked(sold: Sold, status: str) -> None:
    office, _, checkout = sold
    await begin(sold, status)
    found = await row(office)
    [made] = office.stripe.books.refunds.values()
    assert (found["status"], found["reference"]) == ("pending", made["id"])
    assert await office.db.fetchval(PUBLISHED, "checkout.refunded") == 0
    await assert_the_books_are_right(sold, cash=checkout["total_cents"])


@pytest.mark.parametrize("event", ["refund.updated", "charge.refund.updated"])
async def test_a_pending_refund_is_booked_when_the_webhook_says_it_succeeded(sold: Sold, event: str) -> None:
    office, _, _ = sold
    await begin(sold, "pending")
    payload = {**await move(office, "succeeded"), "type": event}
    for each in (payload, payload, {**payload, "id": "evt_other"}):
        assert (await office.webhook(each)).status == 200
    assert (await row(office))["status"] == "done"
    assert await office.db.fetchval(PUBLISHED, "checkout.refunded") == 1
    await assert_the_books_are_right(sold, cash=0)


async def test_a_pending_refund_whose_webhook_is_lost_is_found_by_the_schedule(sold: Sold) -> None:
    office, _, _ = sold
    await begin(sold, "pending")
    await office.ask()
    assert (await row(office))["status"] == "pending"
    await move(office, "succeeded")
    await office.later(hours=2)
    await office.ask()
    assert (await row(office))["status"] == "done"
    await assert_the_books_are_right(sold, cash=0)


@pytest.mark.parametrize("status", ["failed", "canceled"])
async def test_a_pending_refund_that_fails_is_open_again_and_accounting_is_notified(sold: Sold, status: str) -> None:
    office, _, checkout = sold
    await begin(sold, "pending")
    assert (await office.webhook(await move(office, status))).status == 200
    assert (await row(office))["status"] == "failed"
    assert await told_accounting(office) == ["REFUND_FAILED"]
    await assert_the_books_are_right(sold, cash=checkout["total_cents"])


async def test_a_refund_that_comes_back_after_it_was_booked_is_owed_again(sold: Sold) -> None:
    """Stripe calls a refund to a card succeeded at once; the buyer's bank may return it days later."""
    office, show, checkout = sold
    await begin(sold, "succeeded")
    await assert_the_books_are_right(sold, cash=0)
    payload = await move(office, "failed", failure_reason="expired_or_canceled_card")
    for each in (payload, {**payload, "id": "evt_other", "type": "charge.refund.updated"}):
        assert (await office.webhook(each)).status == 200
    found = await row(office)
    assert (found["status"], found["failure"]) == ("failed", "expired_or_canceled_card")
    assert await office.balance(show, "refunds_payable") == checkout["total_cents"]
    assert await office.db.fetchval(PUBLISHED, "checkout.refund_failed") == 1
    assert await told_accounting(office) == ["REFUND_FAILED"]
    await assert_the_books_are_right(sold, cash=checkout["total_cents"])


@pytest.mark.parametrize("first", ["pending", "succeeded"])
async def test_an_operator_repeats_a_failed_refund_and_the_service_is_asked_again(sold: Sold, first: str) -> None:
    office, show, _ = sold
    refund_id = await begin(sold, first)
    failed = await move(office, "failed")
    await office.webhook(failed)
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await after_sale.repeat(tx, refund_id, actor="test") == 2
    await office.drain()
    assert [each["status"] for each in office.stripe.books.refunds.values()] == ["failed", "succeeded"]
    assert (await row(office))["status"] == "done"
    assert await office.balance(show, "refunds_payable") == 0
    # A late webhook about the first attempt changes nothing.
    assert (await office.webhook({**failed, "id": "evt_late"})).status == 200
    await assert_the_books_are_right(sold, cash=0)


@pytest.mark.parametrize("first", ["pending", "succeeded"])
async def test_an_operator_books_a_refund_that_was_paid_another_way(sold: Sold, first: str) -> None:
    office, show, _ = sold
    refund_id = await begin(sold, first)
    await office.webhook(await move(office, "failed"))
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.settle(tx, refund_id, note="bank transfer 4711", actor="test")
    found = await row(office)
    assert (found["status"], found["note"]) == ("settled", "bank transfer 4711")
    await assert_settled(sold)
    with pytest.raises(NotRefundable):
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.repeat(tx, refund_id, actor="test")
    await office.later(days=20)
    await office.ask()
    await assert_settled(sold)


async def test_a_late_webhook_about_the_failure_does_not_reopen_a_refund_that_was_paid_another_way(sold: Sold) -> None:
    office, show, _ = sold
    refund_id = await begin(sold, "pending")
    failed = await move(office, "failed")
    await office.webhook(failed)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.settle(tx, refund_id, note="bank transfer", actor="test")
    for late in ({**failed, "id": "evt_late"}, {**failed, "id": "evt_later", "type": "refund.updated"}):
        assert (await office.webhook(late)).status == 200
    assert (await row(office))["status"] == "settled"
    assert await office.db.fetchval(PUBLISHED, "checkout.refund_failed") == 0
    await assert_settled(sold)


async def test_a_late_webhook_about_the_failure_does_not_reopen_refunds_that_were_paid_at_the_service(
    sold: Sold,
) -> None:
    """Somebody pays two refunds that failed with one refund at the service, which carries the id of neither."""
    office, _, checkout = sold
    first, *others = await office.tickets(checkout)
    for tickets in ([first["id"]], [each["id"] for each in others]):
        office.stripe.books.next_refund_statuses.append("failed")
        await refund(sold, tickets=tickets)
        await office.drain()
    failed = list(office.stripe.books.refunds.values())
    made, _ = office.stripe.books.refund({"payment_intent": failed[0]["payment_intent"]})
    await office.webhook(refund_event("refund.created", made))
    await assert_the_books_are_right(sold, cash=0)
    for each in failed:
        assert (await office.webhook(refund_event("refund.failed", each))).status == 200
    assert (
        await office.db.fetchval(
            "select count(*) from onceward.payment_refunds where status not in ('done', 'settled')"
        )
        == 0
    )
    await assert_the_books_are_right(sold, cash=0)


async def test_money_refunded_twice_at_the_service_and_another_way_is_booked_and_reported(sold: Sold) -> None:
    office, show, checkout = sold
    refund_id = await begin(sold, "pending")
    await office.webhook(await move(office, "failed"))
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.settle(tx, refund_id, note="cash", actor="test")
    [first] = office.stripe.books.refunds.values()
    made, _ = office.stripe.books.refund({"payment_intent": first["payment_intent"]})
    assert (await office.webhook(refund_event("refund.created", made))).status == 200
    assert "REFUNDED_ELSEWHERE" in await told_accounting(office)
    assert await office.balance(show, "cash") == 0
    assert await office.balance(show, "bank") == -checkout["total_cents"]
    await office.assert_sound()


async def test_a_refund_made_at_the_service_is_booked_when_it_has_succeeded(sold: Sold) -> None:
    office, _, checkout = sold
    office.stripe.books.next_refund_statuses.append("pending")
    intent = next(iter(office.stripe.books.intents))
    made, _ = office.stripe.books.refund({"payment_intent": intent})
    assert (await office.webhook(refund_event("refund.created", made))).status == 200
    assert len(await office.tickets(checkout)) == 3
    await office.webhook(await move(office, "succeeded"))
    assert await office.tickets(checkout) == []
    await assert_the_books_are_right(sold, cash=0)
    await office.webhook(await move(office, "failed"))
    await assert_the_books_are_right(sold, cash=checkout["total_cents"])


async def test_only_the_refund_that_completes_it_is_called_full(sold: Sold) -> None:
    """Both are requested before the first is booked: the first is still a part."""
    office, _, checkout = sold
    first, *others = await office.tickets(checkout)
    await refund(sold, tickets=[first["id"]])
    await refund(sold, tickets=[each["id"] for each in others])
    await office.drain()
    said = await office.db.fetch("select body from onceward.published where type = 'checkout.refunded' order by id")
    assert [orjson.loads(each["body"])["data"]["is_full_refund"] for each in said] == [False, True]


async def test_refused_credentials_park_the_refund_and_notify_accounting(sold: Sold) -> None:
    office, _, _ = sold
    for status in (401, 403):
        office.stripe.fail_next(status=status)
    await refund(sold)
    await office.drain()
    assert (await row(office))["status"] == "sent"
    waiting = "select attempts, dead_reason from onceward.work where task = 'payments.refund'"
    found = await office.db.fetchrow(waiting)
    assert found is not None
    assert (found["attempts"], found["dead_reason"]) == (0, None)
    assert await told_accounting(office) == ["PAYMENT_ACCOUNT_REFUSED"]
    for hours in (1, 2):
        await office.later(hours=hours)
        await office.drain()
    assert (await row(office))["status"] == "done"
    await assert_the_books_are_right(sold, cash=0)


async def test_a_refusal_and_webhooks_of_the_same_payment_do_not_deadlock(sold: Sold) -> None:
    """The job that marks a refund as refused takes its locks in the order in which webhooks take them."""
    office, _, checkout = sold
    for ticket in await office.tickets(checkout):
        await refund(sold, tickets=[ticket["id"]])
    office.stripe.fail_next(3, status=400)
    intent = next(iter(office.stripe.books.intents))
    before = await office.db.fetchval("select deadlocks from pg_stat_database where datname = current_database()")
    made = [office.stripe.books.refund({"payment_intent": intent, "amount": "7"})[0] for _ in range(6)]
    answers, _ = await asyncio.gather(
        asyncio.gather(*(office.webhook(refund_event("refund.created", each)) for each in made)), office.drain()
    )
    assert {each.status for each in answers} == {200}
    await office.later(minutes=5)
    await office.drain()
    after = await office.db.fetchval("select deadlocks from pg_stat_database where datname = current_database()")
    assert after == before
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - 42)


# -- PayPal ------------------------------------------------------------------------------------------------------------


async def sell_by_paypal(office: Office) -> tuple[Sold, dict[str, Any]]:
    """An order and a capture at the simulated service, and its webhook."""
    await office.source("paypal", **office.paypal.source_options)
    show = await office.show()
    checkout, capture = await paid_at_paypal(office, show)
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", capture)).status == 200
    await office.drain()
    return (office, show, checkout), capture


async def paid_at_paypal(office: Office, show: Show) -> tuple[Any, dict[str, Any]]:
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    order_id = await office.open_page(show, checkout, "paypal")
    office.paypal.approve(order_id)
    await (await office.app.services.paypal(None)).capture_order(order_id, key="capture")
    [capture] = office.paypal.books.captures.values()
    return checkout, dict(capture)


@pytest.mark.parametrize(("end", "status"), [("COMPLETED", "done"), ("FAILED", "failed"), ("CANCELLED", "failed")])
async def test_a_pending_refund_at_paypal_is_followed_to_its_end(office: Office, end: str, status: str) -> None:
    sold, _ = await sell_by_paypal(office)
    checkout = sold[2]
    office.paypal.books.next_refund_statuses.append("PENDING")
    await refund(sold)
    await office.drain()
    assert (await row(office))["status"] == "pending"
    await assert_the_books_are_right(sold, cash=checkout["total_cents"])
    [made] = office.paypal.books.refunds.values()
    office.paypal.move_refund(made["id"], end)
    if end == "FAILED":
        assert (await paypal_webhook(office, "PAYMENT.REFUND.FAILED", made)).status == 200
    else:  # the webhook is lost, or PayPal has none
        await office.later(hours=2)
        await office.ask()
    assert (await row(office))["status"] == status
    await assert_the_books_are_right(sold, cash=0 if status == "done" else checkout["total_cents"])


@pytest.mark.parametrize("part", [False, True])
async def test_a_refund_at_paypal_that_comes_before_its_capture_is_booked_with_the_sale(
    office: Office, part: bool
) -> None:
    await office.source("paypal", **office.paypal.source_options)
    show = await office.show()
    checkout, capture = await paid_at_paypal(office, show)
    made = office.paypal.refund(capture["id"], "10.00" if part else None)
    for _ in range(2):
        assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REFUNDED", made)).status == 200
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", capture)).status == 200
    assert len(await office.tickets(checkout)) == (2 if part else 0)
    await assert_the_books_are_right((office, show, checkout), cash=checkout["total_cents"] - 1000 if part else 0)


# -- crashes -----------------------------------------------------------------------------------------------------------


async def run_refund(office: Office, show: Show, seat: int, at: tuple[int | None, int | None]) -> tuple[Any, Any]:
    """A sale, a refund that is pending, its success and its failure; the last two cut at a statement."""
    from tests.ticketing.test_edge_cases import paid_at_stripe

    checkout = await office.checkout(show, f"Hall R-{seat}")
    intent = await paid_at_stripe(office, checkout)
    assert (await office.webhook(await office.charge(checkout, payment_intent=intent))).status == 200
    await office.drain()
    await begin((office, show, checkout), "pending")
    made = next(each for each in office.stripe.books.refunds.values() if each["payment_intent"] == intent)
    passed: list[list[str]] = []
    seen: list[Any] = []
    for status, cut_at in zip(("succeeded", "failed"), at, strict=True):
        office.stripe.books.move_refund(made, status)
        type = "refund.failed" if status == "failed" else "refund.updated"
        passed.append(await deliver(office, refund_event(type, made), cut_at))
        seen.append(await left_behind(office, checkout["id"]))
    return passed, seen


async def left_behind(office: Office, checkout_id: UUID) -> dict[str, Any]:
    found = await office.db.fetchrow(
        "select r.id, r.status, p.refunded from onceward.payment_refunds r"
        " join onceward.payments p on p.id = r.payment_id where p.subject_id = $1",
        str(checkout_id),
    )
    assert found is not None
    one, like = office.db.fetchval, f"refund:{found['id']}%"
    return {
        "status": found["status"],
        "refunded": found["refunded"],
        "journals": await one("select count(*) from onceward.ledger_journals where key like $1", like),
        "published": await one("select count(*) from onceward.published where key like $1", like),
        "audited": await one("select count(*) from onceward.audit_log where entity_id = $1", str(found["id"])),
        "told": await one("select count(*) from onceward.notices where details ->> 'refund' = $1", str(found["id"])),
    }


@pytest.mark.timeout(240)
async def test_webhooks_of_a_refund_killed_at_every_statement_come_out_the_same(office: Office) -> None:
    from onceward_apps.ticketing.event_setup import Section

    await office.source()
    show = await office.show(sections=(Section(name="Hall", price_cents=100, rows={"R-": 90}),))
    points, expected = await run_refund(office, show, 1, (None, None))
    assert [each["status"] for each in expected] == ["done", "failed"]
    assert expected[1]["told"] == 1
    assert all(10 < len(each) < 70 for each in points), points
    for n in range(1, max(len(each) for each in points) + 1):
        _, found = await run_refund(office, show, n + 1, (n, n))
        assert found == expected, f"a crash at {n} changed the outcome"
    await office.assert_sound()
