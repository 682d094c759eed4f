"""What can go wrong with a payment: one test, or a few, for each row of the table in README.md.

What happens when mail or the live nodes are away stands in test_outages.py.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from onceward_apps.ticketing import baskets, coupons, jobs
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.store import sales
from tests.ticketing.office import Office, Show, charge


async def paid_at_stripe(office: Office, checkout: Any) -> str:
    """A payment that the simulated service knows, so that it can be refunded there."""
    made = await (await office.app.services.stripe(None)).create_payment_intent(
        key=f"test:{checkout['id']}:{time.monotonic_ns()}",
        amount_minor=checkout["total_cents"] or 100,
        currency=checkout["currency"],
    )
    intent = str(made.reference)  # pyright: ignore[reportAttributeAccessIssue]
    office.stripe.books.charge(office.stripe.books.intents[intent])
    return intent


async def assert_given_back(office: Office, show: Show, checkout: Any, *, reason: str, audience: str) -> None:
    """Assert the refund at the service and in the books, and the notice to the team in charge."""
    await office.drain()
    [refund] = await office.refunds(checkout)
    assert (refund["status"], refund["reason"]) == ("done", reason)
    assert office.stripe.books.refunds[refund["reference"]]["amount"] == refund["amount"]
    assert await office.balance(show, "cash", refund["currency"]) == 0
    assert await office.balance(show, "refunds_payable", refund["currency"]) == 0
    assert [(row["type"], row["audience"]) for row in await office.notices()] == [("PAYMENT_REFUSED", audience)]
    templates = await office.db.fetch("select template from onceward.messages")
    assert [row["template"] for row in templates] == ["payment-refunded"]
    await office.assert_sound()


# -- duplicate webhook -------------------------------------------------------------------------------------------


async def test_duplicate_webhook_gets_the_first_result_and_causes_nothing(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    payload = await office.charge(checkout)
    first = await office.webhook(payload)
    again = await office.webhook(payload)
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json
    assert again.headers["onceward-duplicate"] == "true"
    assert len(await office.tickets(checkout)) == 2
    assert await office.balance(show, "cash") == checkout["total_cents"]
    assert await office.db.fetchval("select count(*) from onceward.messages") == 1


async def test_three_events_about_one_payment_sell_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    charged = await office.charge(checkout, payment_intent="pi_1")
    intent = await office.charge(
        checkout, type="payment_intent.succeeded", id="pi_1", amount_received=checkout["total_cents"]
    )
    session = await office.charge(
        checkout,
        type="checkout.session.completed",
        id="cs_1",
        payment_intent="pi_1",
        payment_status="paid",
        status="complete",
        amount_total=checkout["total_cents"],
    )
    told = await asyncio.gather(*(office.webhook(each) for each in (charged, intent, session)))
    assert {each.status for each in told} == {200}
    assert sorted(each.json.get("ticket_count", 0) for each in told) == [0, 0, 1]
    assert len(await office.tickets(checkout)) == 1
    assert await office.db.fetchval("select count(*) from onceward.payments") == 1


# -- webhook out of order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        {"onceward_payment": "7f8e7a5e-93a3-4a5c-9d0b-6c1c5f5b1f10"},
        {"onceward_payment": "summer-gala"},
        {"event_id": "summer-gala", "checkout_id": "4711", "onceward_payment": ""},
    ],
)
async def test_a_payment_of_other_software_on_the_same_account_is_left_alone(office: Office, metadata: Any) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    told = await office.pay(checkout, metadata=metadata, payment_intent=await paid_at_stripe(office, checkout))
    assert told.status == 200
    await office.drain()
    assert await office.status(checkout) == "started"
    assert (office.stripe.books.refunds, await office.notices()) == ({}, [])


async def test_webhook_out_of_order_after_the_buyer_gave_up_is_refunded_with_400_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.abandon(tx, checkout["id"])
    payload = await office.charge(checkout, payment_intent=await paid_at_stripe(office, checkout))
    first = await office.webhook(payload)
    assert (first.status, first.json["error"]) == (400, "checkout_abandoned")
    assert (await office.webhook(payload)).status == 200
    await assert_given_back(office, show, checkout, reason="checkout_abandoned", audience="admin")
    assert await office.tickets(checkout) == []


# -- checkout expired, seat hold expired ---------------------------------------------------------------------------


async def test_checkout_expired_sells_what_is_still_free(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    await office.later(minutes=16)
    told = await office.pay(checkout)
    assert (told.status, told.json["ticket_count"]) == (200, 2)
    assert await office.status(checkout) == "completed"


async def test_checkout_expired_and_swept_still_sells_what_is_free(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.later(minutes=20)
    await office.db.execute("select onceward.capacity_reap(100)")
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.end(tx, checkout["id"], "expired", of=("started",))
        from onceward_apps.ticketing.store import baskets as rows

        assert (await rows.expire_holds(tx))[0] == 1
    assert (await office.pay(checkout)).status == 200


async def test_checkout_expired_whose_seats_are_gone_is_refunded_with_400_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    late = await office.checkout(show, "Stalls A1", "Stalls A2")
    await office.later(minutes=16)
    await office.hold(show, "Stalls A2")
    payload = await office.charge(late, payment_intent=await paid_at_stripe(office, late))
    told = await office.webhook(payload)
    assert (told.status, told.json["error"]) == (400, "seats_gone")
    again = await office.webhook(payload)
    assert again.status == 200
    await assert_given_back(office, show, late, reason="seats_gone", audience="admin")
    # The seat that was still free was not taken by the half that failed.
    assert await office.db.fetchval("select status from ticketing.seats where label = 'Stalls A1'") != "sold"


async def test_seat_hold_expired_before_the_checkout_starts_asks_to_choose_again(office: Office) -> None:
    show = await office.show()
    basket = await office.hold(show, "Stalls A1")
    await office.later(minutes=5)
    with pytest.raises(baskets.NothingHeld):
        await office.checkout(show, basket=basket)


async def test_seat_hold_lasts_as_long_as_the_checkout_it_was_taken_to(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.later(minutes=14)
    with pytest.raises(baskets.SeatTaken):
        await office.hold(show, "Stalls A1")
    assert (await office.pay(checkout)).status == 200


# -- seat already sold ---------------------------------------------------------------------------------------------


async def test_seat_already_sold_is_read_again_when_its_version_changed(office: Office) -> None:
    """Somebody touches the seat between reading and selling: the second try sells it."""
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    read = sales.items

    async def read_then_touch(tx: Any, *values: Any) -> Any:
        rows = await read(tx, *values)
        await office.db.execute("update ticketing.seats set version = version + 1 where label = 'Stalls A1'")
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sales, "items", read_then_touch)
        told = await office.pay(checkout)
    assert told.status == 200
    assert len(await office.tickets(checkout)) == 1


async def test_seat_already_sold_is_given_up_after_three_tries_and_nothing_is_left(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    tries = 0

    sell = sales.sell

    async def never(tx: Any, *values: Any) -> Any:
        nonlocal tries
        tries += 1
        await office.db.execute("update ticketing.seats set version = version + 1 where label = 'Stalls A2'")
        return await sell(tx, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sales, "sell", never)
        told = await office.pay(checkout)
    assert (told.status, tries) == (500, 3)
    assert await office.tickets(checkout) == []
    assert await office.status(checkout) == "started"
    assert await office.balance(show, "cash") == 0


# -- amount mismatch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difference", [-1, 1, -100])
async def test_amount_mismatch_is_refunded_with_400_and_the_fraud_team_is_notified(
    office: Office, difference: int
) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    wrong = {**dict(checkout), "total_cents": checkout["total_cents"] + difference}
    payload = charge(wrong, await office.page(checkout), payment_intent=await paid_at_stripe(office, wrong))
    told = await office.webhook(payload)
    assert (told.status, told.json["error"]) == (400, "amount_mismatch")
    await assert_given_back(office, show, checkout, reason="amount_mismatch", audience="fraud")
    assert await office.status(checkout) == "started"
    assert (await office.pay(checkout)).status == 200


async def test_amount_mismatch_in_another_currency_is_refunded_in_that_currency(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    wrong = {**dict(checkout), "currency": "USD"}
    payment = await paid_at_stripe(office, wrong)
    told = await office.webhook(charge(wrong, await office.page(checkout), payment_intent=payment))
    assert (told.status, told.json["error"]) == (400, "currency_mismatch")
    await assert_given_back(office, show, checkout, reason="wrong_currency", audience="fraud")


async def test_a_source_of_another_organization_cannot_complete_a_checkout(office: Office) -> None:
    show = await office.show()
    other = await office.show(slug="other")
    await office.source(organization=other.organization)
    checkout = await office.checkout(show, "Stalls A1")
    told = await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))
    assert told.status == 200
    await office.drain()
    assert await office.status(checkout) == "started"
    assert await office.db.fetchval("select sum(received) from onceward.payments") == 0
    assert office.stripe.books.refunds == {}, "a source of one organization gave another's money back"


# -- missing ledger accounts ---------------------------------------------------------------------------------------


async def test_accounting_is_notified_of_missing_ledger_accounts_and_the_sale_is_retried(office: Office) -> None:
    await office.source()
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        await coupons.add(tx, "tenths", percent_bps=1000, actor="test")
    checkout = await office.checkout(show, "Stalls A1", coupon="TENTHS")
    await office.db.execute(
        "update ticketing.checkouts set currency = 'NOK' where id = $1", checkout["id"]
    )  # nothing was ever opened in kroner, also not the expense for discounts
    told = await office.pay({**dict(checkout), "currency": "NOK"})
    assert told.status == 500
    assert [(row["type"], row["audience"]) for row in await office.notices()] == [
        ("LEDGER_ACCOUNTS_MISSING", "accounting")
    ]
    assert await office.tickets(checkout) == []
    assert await office.db.fetchval("select status from ticketing.seats where label = 'Stalls A1'") == "held"
    assert await office.db.fetchval("select status from onceward.webhook_events") == "pending"


# -- QR generation fails -------------------------------------------------------------------------------------------


async def test_qr_generation_fails_and_is_tried_again_while_the_ticket_is_valid(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.pay(checkout)

    class Broken:
        async def put(self, *_: Any, **__: Any) -> None:
            raise OSError("the store is away")

    office.app.services.use("files", Broken())
    await office.drain()
    [ticket] = await office.tickets(checkout)
    assert (ticket["status"], ticket["qr_code_url"]) == ("active", None)
    attempts = "select w.attempts from onceward.work w join onceward.jobs j using (id) where j.task = $1"
    assert await office.db.fetchval(attempts, jobs.generate_qr.name) == 1
    assert jobs.generate_qr.task.retry.max_attempts == 5

    office.app.services.configure(office.app.services.settings)
    await office.later(hours=1)
    await office.drain()
    [ticket] = await office.tickets(checkout)
    assert ticket["qr_code_url"] is not None


# -- invalid signature, too old ------------------------------------------------------------------------------------


async def test_invalid_webhook_signature_is_rejected_with_400_and_the_security_team_is_notified(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    told = await office.webhook(await office.charge(checkout), secret="whsec_somebody_else_made_this_one_up")
    assert told.status == 400
    assert await office.db.fetchval("select count(*) from onceward.webhook_events") == 0
    await office.inbox.rejects.flush()
    assert [(row["type"], row["audience"]) for row in await office.notices()] == [("WEBHOOK_FORGED", "security")]
    assert await office.tickets(checkout) == []


async def test_webhook_too_old_is_rejected_with_400(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    assert (await office.webhook(await office.charge(checkout), at=time.time() - 301)).status == 400
    assert (await office.webhook(await office.charge(checkout), at=time.time() - 290)).status == 200


# -- concurrent payment --------------------------------------------------------------------------------------------


async def test_concurrent_payment_sells_once_and_gives_the_second_back(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    payments = [await paid_at_stripe(office, checkout) for _ in range(2)]
    await office.page(checkout)
    told = await asyncio.gather(*(office.pay(checkout, payment_intent=payment) for payment in payments))
    assert [each.status for each in told] == [200, 200]
    assert len({each.json["payment_reference"] for each in told}) == 1
    await office.drain()
    assert len(await office.tickets(checkout)) == 1
    assert len(office.stripe.books.refunds) == 1
    assert await office.balance(show, "cash") == checkout["total_cents"]
    assert await office.balance(show, "refunds_payable") == 0


# -- database connection lost --------------------------------------------------------------------------------------


async def test_database_connection_lost_is_answered_503_and_leaves_nothing(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    read = sales.items

    async def read_then_lose(tx: Any, *values: Any) -> Any:
        rows = await read(tx, *values)
        pid = await tx.fetchval("select pg_backend_pid()")
        await office.db.execute("select pg_terminate_backend($1)", pid)
        return rows

    payload = await office.charge(checkout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sales, "items", read_then_lose)
        told = await office.webhook(payload)
    assert told.status == 503
    assert "retry-after" in told.headers
    assert await office.db.fetchval("select count(*) from onceward.webhook_events") == 0
    assert (await office.webhook(payload)).status == 200
    assert len(await office.tickets(checkout)) == 1


# -- transaction timeout -------------------------------------------------------------------------------------------


async def test_transaction_timeout_rolls_back_and_is_tried_again(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    read = sales.items

    async def too_slow(tx: Any, *values: Any) -> Any:
        await tx.execute("set local statement_timeout = '20ms'")
        await tx.execute("select pg_sleep(1)")
        return await read(tx, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sales, "items", too_slow)
        told = await office.pay(checkout)
    assert told.status == 500
    assert await office.tickets(checkout) == []
    await office.later(minutes=1)
    await office.drain()
    assert await office.status(checkout) == "completed"


async def test_transaction_timeout_is_far_away_for_an_order_of_a_hundred_seats(office: Office) -> None:
    await office.source()
    big = (Section(name="Hall", price_cents=1000, rows={f"R{n}": 10 for n in range(10)}),)
    show = await office.show(sections=big, most_per_order=100)
    labels = [f"Hall R{row}{seat}" for row in range(10) for seat in range(1, 11)]
    checkout = await office.checkout(show, *labels)
    told = await office.pay(checkout)
    assert told.json["ticket_count"] == 100
