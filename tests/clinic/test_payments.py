"""Payments of appointments: one is kept, every other one goes back, and the status follows the money."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.payments.checks import CHECKS as PAYMENT_CHECKS
from onceward.payments.due import enqueue_due
from onceward_apps.clinic import bookings, payments
from onceward_apps.clinic.app import ClinicSettings
from onceward_apps.clinic.checks import CHECKS
from onceward_apps.clinic.errors import NotAllowed, NotRefundable
from tests.clinic.practice import ACTOR, Practice


@pytest.fixture
async def practice(practice: Practice) -> Any:
    await practice.sources()
    yield practice
    for check in (*CHECKS, *PAYMENT_CHECKS):
        async with practice.db.acquire() as conn:
            assert await check.run(conn) == [], check.name


async def notices(practice: Practice) -> list[str]:
    return [row["type"] for row in await practice.db.fetch("select type from onceward.notices order by id")]


async def refund(practice: Practice, appointment: UUID, amount: int | None = None, **more: Any) -> Any:
    async with practice.acting() as tx:
        values = {"reason": "", "key": uuid4().hex, "actor": ACTOR, **more}
        return await payments.refund(tx, appointment, amount=amount, **values)


async def cancel(practice: Practice, appointment: UUID, by: Any = "clinic") -> Any:
    async with practice.acting() as tx:
        return await bookings.cancel(tx, appointment, by=by, reason="ill", actor=ACTOR)


async def test_a_payment_makes_its_appointment_paid_and_a_second_delivery_changes_nothing(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment)
    assert await practice.status(appointment) == ("scheduled", "paid")
    await practice.deliver_stripe(again=True)
    [payment] = await practice.payments()
    assert (payment["received"], payment["decision"]) == (8000, "accepted")
    published = "select count(*) from onceward.published where type = 'appointment.paid'"
    assert await practice.db.fetchval(published) == 1
    assert practice.stripe.books.refunds == {}


async def test_a_payment_link_is_sent_once_and_leads_to_one_page(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    first = await practice.link(appointment)
    async with practice.acting() as tx:
        assert await payments.request_link(tx, appointment) == 1  # within a minute
    await practice.clock.advance(minutes=2)
    assert await practice.link(appointment) == first
    await practice.drain()
    row = await practice.row(appointment)
    assert (row["payment_status"], row["payment_links"]) == ("pending", 2)
    [session] = practice.stripe.books.sessions.values()
    base = practice.app.services.settings.url
    assert session["success_url"] == f"{base}/clinic/paid?appointment={appointment}"
    assert session["cancel_url"] == f"{base}/clinic/unpaid?appointment={appointment}"
    assert session["metadata"]["appointment"] == str(appointment)
    assert row["payment_url"].startswith(f"{base}/pay/")
    assert [each["template"]["name"] for each in practice.whatsapp.messages] == ["clinic_payment_link"] * 2


async def test_a_declined_card_is_shown_and_never_undoes_a_payment(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    session = await practice.link(appointment)
    practice.stripe.decline(session)
    await practice.deliver_stripe()
    assert (await practice.status(appointment))[1] == "failed"
    practice.stripe.pay(session)
    await practice.deliver_stripe()
    await practice.deliver_stripe(again=True)
    assert (await practice.status(appointment))[1] == "paid"


async def test_a_link_that_nobody_pays_ends_and_another_one_can_be_sent(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.link(appointment)
    await practice.clock.advance(days=31)
    await practice.deliver_stripe()
    row = await practice.row(appointment)
    assert (row["payment_status"], row["payment_url"]) == ("unpaid", None)
    await practice.pay(appointment)
    assert (await practice.status(appointment))[1] == "paid"
    async with practice.acting() as tx:
        with pytest.raises(NotAllowed, match="is paid"):
            await payments.request_link(tx, appointment)


async def test_another_amount_is_kept_for_review_and_alerts(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    session = await practice.link(appointment)
    await practice.db.execute("update onceward.payments set amount = 8100")  # Stripe takes less than we asked for
    practice.stripe.pay(session)
    await practice.deliver_stripe()
    assert (await practice.status(appointment))[1] == "review"
    assert await notices(practice) == ["CLINIC_PAYMENT"]
    assert await practice.refunds() == []
    await cancel(practice, appointment)
    await practice.deliver_stripe()
    assert await practice.status(appointment) == ("cancelled", "refunded")


async def test_another_currency_goes_back_and_alerts(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    session = await practice.link(appointment)
    await practice.db.execute("update onceward.payments set currency = 'EUR'")
    practice.stripe.pay(session)
    await practice.deliver_stripe()
    assert await practice.refunds() == [(8000, "done", "wrong_currency")]
    assert await notices(practice) == ["PAYMENT_RETURNED"]
    assert (await practice.status(appointment))[1] == "refunded"
    await practice.clock.advance(minutes=2)
    await practice.pay(appointment)  # nothing was bought yet
    assert (await practice.status(appointment))[1] == "paid"


async def test_payments_of_other_software_are_never_touched(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    for metadata in (
        {"appointment_id": str(appointment), "app": "clinic"},
        {"appointment": str(appointment)},
        {"appointment_id": "summer-gala"},
        {"onceward_payment": str(uuid4())},
    ):
        stripe = await practice.app.services.stripe(None)
        price = {"currency": "sgd", "unit_amount": 8000, "product_data": {"name": "Visit"}}
        outcome: Any = await stripe.create_checkout_session(
            key=uuid4().hex,
            line_items=[{"price_data": price, "quantity": 1}],
            success_url="https://other.example/",
            cancel_url="https://other.example/",
            metadata=metadata,
        )
        practice.stripe.pay(outcome.reference)
    await practice.deliver_stripe()
    assert practice.stripe.books.refunds == {}
    assert await practice.payments() == []
    assert await notices(practice) == []
    assert (await practice.status(appointment))[1] == "unpaid"
    assert await practice.db.fetchval("select count(*) from webhook_events where status <> 'success'") == 0


async def test_a_second_payment_of_one_appointment_is_refunded(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    session = await practice.link(appointment)
    practice.stripe.pay(session)
    practice.stripe.pay_again(session)
    await practice.deliver_stripe()
    assert (await practice.status(appointment))[1] == "paid"
    assert await practice.refunds() == [(8000, "done", "duplicate")]
    assert await notices(practice) == ["CLINIC_PAYMENT"]


async def test_a_cancelled_appointment_is_refunded_and_a_late_payment_too(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment)
    row = await cancel(practice, appointment)
    assert row["payment_status"] == "refund_pending"
    await practice.deliver_stripe()
    assert await practice.status(appointment) == ("cancelled", "refunded")
    late = await practice.appointment(await practice.patient("Ben"), price=8000)
    session = await practice.link(late)
    practice.stripe.pay(session)  # before the page closes
    await cancel(practice, late)
    await practice.deliver_stripe()
    assert await practice.status(late) == ("cancelled", "refunded")
    assert sorted(await practice.refunds()) == [(8000, "done", "appointment_cancelled"), (8000, "done", "cancelled")]


async def test_the_page_of_a_cancelled_appointment_is_closed_at_stripe(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    session = await practice.link(appointment)
    await cancel(practice, appointment)
    await practice.deliver_stripe()
    assert practice.stripe.books.sessions[session]["status"] == "expired"
    assert await practice.status(appointment) == ("cancelled", "unpaid")


@pytest.mark.parametrize(("hours", "refunded"), [(25, 8000), (23, 2000)])
async def test_a_patient_who_cancels_late_gets_the_share_of_the_policy(
    practice: Practice, hours: float, refunded: int
) -> None:
    practice.app.use_settings(ClinicSettings.model_validate({"late_refund_percent": 25}))
    appointment = await practice.appointment(price=8000, hours=hours)
    await practice.pay(appointment)
    await cancel(practice, appointment, by="patient")
    await practice.deliver_stripe()
    assert await practice.refunds() == [(refunded, "done", "appointment_cancelled")]


async def test_a_refund_made_at_stripe_shows(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    intent = await practice.pay(appointment)
    stripe = await practice.app.services.stripe(None)
    for amount, status in ((3000, "partially_refunded"), (5000, "refunded")):
        await stripe.create_refund(key=uuid4().hex, payment_intent=intent, amount_minor=amount)
        await practice.deliver_stripe()
        assert (await practice.status(appointment))[1] == status


async def test_a_refund_that_the_bank_returns_alerts_and_can_be_made_again(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment)
    await cancel(practice, appointment)
    await practice.deliver_stripe()
    [reference] = practice.stripe.books.refunds
    practice.stripe.move_refund(reference, "failed")
    await practice.deliver_stripe()
    await practice.deliver_stripe(again=True)
    assert (await notices(practice)).count("REFUND_FAILED") == 1
    assert await practice.status(appointment) == ("cancelled", "paid")
    await refund(practice, appointment)
    await practice.deliver_stripe()
    assert await practice.status(appointment) == ("cancelled", "refunded")


async def test_the_same_key_is_one_refund_and_without_a_key_the_same_reason_is_refused(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment)
    first = await refund(practice, appointment, 1000, key="one")
    assert (await refund(practice, appointment, 1000, key="one")).id == first.id
    await refund(practice, appointment, 500, key=None, reason="late")
    with pytest.raises(NotRefundable, match="same reason"):
        await refund(practice, appointment, 500, key=None, reason=" late ")
    with pytest.raises(NotRefundable, match="6500"):
        await refund(practice, appointment, 6501)
    await refund(practice, appointment, key="rest")
    await practice.deliver_stripe()
    assert sorted(amount for amount, _, _ in await practice.refunds()) == [500, 1000, 6500]
    assert (await refund(practice, appointment, key="rest")).amount.amount == 6500
    with pytest.raises(NotRefundable, match="no payment that can be refunded"):
        await refund(practice, appointment)


@pytest.mark.parametrize("way", ["webhook", "question"])
@pytest.mark.parametrize(("end", "stored"), [("succeeded", "done"), ("canceled", "failed")])
async def test_a_refund_that_waits_for_the_bank_ends(practice: Practice, way: str, end: str, stored: str) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment)
    practice.stripe.books.next_refund_statuses.append("pending")
    await refund(practice, appointment)
    await practice.deliver_stripe()
    assert (await practice.status(appointment))[1] == "refund_pending"
    [reference] = practice.stripe.books.refunds
    practice.stripe.move_refund(reference, end)
    if way == "webhook":
        await practice.deliver_stripe()
    else:
        await practice.clock.advance(minutes=11)
        await enqueue_due(practice.db, practice.engine.waker)
        await practice.drain()
    [(_, status, _)] = await practice.refunds()
    assert status == stored
    assert (await practice.status(appointment))[1] == ("refunded" if end == "succeeded" else "paid")


@pytest.mark.parametrize("won", [True, False])
async def test_a_payment_that_the_bank_took_back_is_not_shown_as_paid(practice: Practice, won: bool) -> None:
    appointment = await practice.appointment(price=8000)
    intent = await practice.pay(appointment)
    dispute = practice.stripe.open_dispute(intent)["id"]
    await practice.deliver_stripe()
    assert (await practice.status(appointment))[1] == "disputed"
    with pytest.raises(NotRefundable, match="bank decides"):
        await refund(practice, appointment)
    practice.stripe.close_dispute(dispute, won=won)
    await practice.deliver_stripe()
    await practice.deliver_stripe(again=True)
    assert (await practice.status(appointment))[1] == ("paid" if won else "charged_back")
    assert await notices(practice) == ["DISPUTE_OPEN", "DISPUTE_WON" if won else "DISPUTE_LOST"]


@pytest.mark.parametrize(("by", "refunded"), [("clinic", 8000), ("patient", 2000)])
async def test_a_cancellation_during_a_dispute_is_refunded_once_the_clinic_gets_the_money(
    practice: Practice, by: str, refunded: int
) -> None:
    """The share is that of the cancellation, however long the bank decides; the question to the patient names the fee."""
    practice.app.use_settings(ClinicSettings.model_validate({"late_refund_percent": 25}))
    appointment = await practice.appointment(price=8000, hours=23)
    intent = await practice.pay(appointment)
    dispute = practice.stripe.open_dispute(intent)["id"]
    await practice.deliver_stripe()
    async with practice.acting() as tx:
        row = await bookings.appointment(tx, appointment)
        assert await payments.cancellation_fee(tx, row) == 6000
    await cancel(practice, appointment, by=by)
    await practice.deliver_stripe()
    assert await practice.refunds() == []
    await practice.clock.advance(days=30)
    practice.stripe.close_dispute(dispute, won=True)
    await practice.deliver_stripe()
    await practice.deliver_stripe(again=True)
    assert await practice.refunds() == [(refunded, "done", "appointment_cancelled")]


async def test_a_lost_webhook_is_found_when_the_patient_returns(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    practice.stripe.pay(await practice.link(appointment))  # and no webhook comes
    async with practice.acting() as tx:
        [payment] = await tx.payments.of("appointment", appointment)
        await tx.payments.ask(payment.id)
    await practice.drain()
    assert (await practice.status(appointment))[1] == "paid"


async def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once(practice: Practice) -> None:
    await practice.pay(await practice.appointment(price=8000))
    [intent] = practice.stripe.books.intents.values()
    found = {**intent, "amount_received": "much"}
    assert await practice.stripe_event("payment_intent.succeeded", found, event_id="evt_bad") is None
    row: Any = await practice.db.fetchrow("select status, attempts from webhook_events where event_id = 'evt_bad'")
    assert tuple(row) == ("dead_letter", 1)
