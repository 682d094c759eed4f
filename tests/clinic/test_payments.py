"""Payments and refunds: joined by metadata, judged, refunded under stable keys, in any order of the webhooks."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward_apps.clinic import appointment_payments, bookings, schedules
from onceward_apps.clinic.app import ClinicSettings
from onceward_apps.clinic.errors import NotRefundable
from tests.clinic.practice import ACTOR, Practice


@pytest.fixture
async def practice(practice: Practice) -> Practice:
    await practice.sources()
    return practice


async def paid_at_stripe(practice: Practice, amount: int) -> str:
    """Return a payment intent that exists in the simulator, so that it can be refunded."""
    stripe = await practice.app.services.stripe(None)
    price = {"currency": "sgd", "unit_amount": amount, "product_data": {"name": "Visit"}}
    outcome: Any = await stripe.create_checkout_session(
        key=uuid4().hex,
        line_items=[{"price_data": price, "quantity": 1}],
        success_url="https://clinic.example/",
        cancel_url="https://clinic.example/",
    )
    return practice.stripe.pay(outcome.reference)["payment_intent"]


async def test_a_payment_makes_its_appointment_paid_and_a_second_delivery_changes_nothing(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    assert await practice.pay(appointment, 8000, event_id="evt_1", intent="pi_1") == "paid"
    assert await practice.status(appointment) == ("scheduled", "paid")
    assert await practice.pay(appointment, 8000, event_id="evt_1", intent="pi_1") == "paid"
    assert await practice.pay(appointment, 8000, event_id="evt_2", intent="pi_1") == "known"
    assert await practice.db.fetchval("select count(*) from clinic.payments") == 1


async def test_a_failed_try_is_shown_and_never_undoes_a_payment(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    assert await practice.pay(appointment, 8000, type="payment_intent.payment_failed", intent="pi_1") == "failed"
    assert (await practice.status(appointment))[1] == "failed"
    assert await practice.pay(appointment, 8000, intent="pi_1") == "paid"
    assert await practice.pay(appointment, 8000, type="payment_intent.payment_failed", intent="pi_1") == "known"
    assert (await practice.status(appointment))[1] == "paid"


@pytest.mark.parametrize(("amount", "currency"), [(7999, "sgd"), (8000, "usd")])
async def test_a_wrong_amount_or_currency_alerts_and_does_not_pay(
    practice: Practice, amount: int, currency: str
) -> None:
    appointment = await practice.appointment(price=8000)
    assert await practice.pay(appointment, amount, currency=currency) == "wrong_amount"
    assert (await practice.status(appointment))[1] == "review"
    assert await practice.db.fetchval("select count(*) from onceward.notices where type = 'CLINIC_PAYMENT'") == 1
    assert await practice.db.fetchval("select count(*) from clinic.refunds") == 0


async def test_events_of_other_apps_store_nothing(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    assert await practice.pay(appointment, 8000, app="learning") == "not_ours"
    assert await practice.pay(None, 8000, app="") == "not_ours"
    assert await practice.db.fetchval("select count(*) from clinic.payments") == 0
    assert await practice.db.fetchval("select count(*) from onceward.notices") == 0


async def test_a_payment_of_an_unknown_appointment_is_refunded_once_and_alerted(practice: Practice) -> None:
    intent = await paid_at_stripe(practice, 8000)
    assert await practice.pay(uuid4(), 8000, intent=intent) == "unknown_appointment"
    refund = await practice.db.fetchrow("select * from clinic.refunds")
    assert (refund["status"], refund["amount"], refund["reason"]) == ("succeeded", 8000, "unknown_appointment")
    assert refund["key"].startswith("event:")
    assert refund["key"].endswith(":refund")
    assert await practice.db.fetchval("select count(*) from onceward.notices") == 1


async def test_a_second_payment_of_one_appointment_is_refunded(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment, 8000)
    assert await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000)) == "duplicate"
    assert (await practice.status(appointment))[1] == "paid"
    assert await practice.db.fetchval("select sum(amount) from clinic.refunds where status = 'succeeded'") == 8000


async def test_a_cancelled_appointment_is_refunded_and_a_late_payment_too(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000))
    async with practice.acting() as tx:
        row = await bookings.cancel(tx, appointment, by="clinic", reason="ill", actor=ACTOR)
    assert row["payment_status"] == "refund_pending"
    await practice.drain()
    assert await practice.status(appointment) == ("cancelled", "refunded")
    assert await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000)) == "cancelled"
    assert await practice.db.fetchval("select count(*) from clinic.refunds where status = 'succeeded'") == 2


@pytest.mark.parametrize(("hours", "refunded"), [(25, 8000), (23, 2000)])
async def test_a_patient_who_cancels_late_gets_the_share_of_the_policy(
    practice: Practice, hours: float, refunded: int
) -> None:
    practice.app.use_settings(ClinicSettings.model_validate({"late_refund_percent": 25}))
    appointment = await practice.appointment(price=8000, hours=hours)
    await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000))
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="patient", reason="", actor=ACTOR)
    await practice.drain()
    assert await practice.db.fetchval("select sum(refunded) from clinic.payments") == refunded


async def test_a_refund_reported_before_its_payment_counts(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    charge = {
        "id": "ch_1",
        "payment_intent": "pi_1",
        "amount_refunded": 3000,
        "currency": "sgd",
        "metadata": {"app": "clinic", "appointment_id": str(appointment)},
    }
    assert await practice.stripe_event("charge.refunded", charge) == "before_payment"
    assert await practice.pay(appointment, 8000, intent="pi_1") == "paid"
    assert (await practice.status(appointment))[1] == "partially_refunded"
    assert await practice.stripe_event("charge.refunded", {**charge, "amount_refunded": 8000}) == "refunded"
    assert await practice.stripe_event("charge.refunded", {**charge, "amount_refunded": 3000}) == "refunded"
    assert (await practice.status(appointment))[1] == "refunded"
    assert await practice.stripe_event("charge.refunded", {**charge, "payment_intent": "pi_x", "metadata": {}}) == (
        "not_ours"
    )


async def refunded_visit(practice: Practice) -> UUID:
    """An appointment that was paid, cancelled and refunded."""
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000))
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await practice.drain()
    assert await practice.status(appointment) == ("cancelled", "refunded")
    return appointment


async def test_a_refund_that_the_bank_returns_alerts_and_can_be_made_again(practice: Practice) -> None:
    appointment = await refunded_visit(practice)
    [reference] = practice.stripe.books.refunds
    practice.stripe.books.move_refund(practice.stripe.books.refunds[reference], "failed")
    failed = {"id": reference, "failure_reason": "closed"}
    assert await practice.stripe_event("refund.failed", failed) == "refund_failed"
    assert await practice.stripe_event("refund.failed", failed) == "refund_failed"
    assert await practice.db.fetchval("select count(*) from onceward.notices where type = 'CLINIC_REFUND_FAILED'") == 1
    assert await practice.status(appointment) == ("cancelled", "paid")
    async with practice.acting() as tx:
        await appointment_payments.refund(tx, appointment, amount=None, reason="again", key="again", actor=ACTOR)
    await practice.drain()
    assert await practice.status(appointment) == ("cancelled", "refunded")


async def test_an_old_report_does_not_hide_that_the_bank_returned_a_refund(practice: Practice) -> None:
    appointment = await refunded_visit(practice)
    row = await practice.db.fetchrow("select provider_id from clinic.payments")
    [reference] = practice.stripe.books.refunds
    await practice.stripe_event("refund.failed", {"id": reference}, created=2_000_000_000)
    charge = {"id": "ch_1", "payment_intent": row["provider_id"], "amount_refunded": 8000, "currency": "sgd"}
    await practice.stripe_event("charge.refunded", charge, created=1_999_999_999)
    assert await practice.status(appointment) == ("cancelled", "paid")
    await practice.stripe_event("charge.refunded", charge, created=2_000_000_001)
    assert await practice.status(appointment) == ("cancelled", "refunded")


async def test_a_failure_that_is_reported_before_the_answer_to_the_request_counts(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000))
    async with practice.acting() as tx:
        refund = await appointment_payments.refund(tx, appointment, amount=3000, reason="", key="part", actor=ACTOR)
    found = {"id": "re_early", "metadata": {"app": "clinic", "refund_id": str(refund["id"])}}
    assert await practice.stripe_event("refund.failed", found) == "refund_failed"
    assert await practice.db.fetchval("select status from clinic.refunds") == "failed"


async def test_a_payment_of_other_software_with_an_appointment_id_is_never_touched(practice: Practice) -> None:
    intent = await paid_at_stripe(practice, 8000)
    for appointment in (str(uuid4()), "summer-gala"):
        assert await practice.pay(None, 8000, intent=intent, app="", appointment_id=appointment) == "not_ours"
    assert practice.stripe.books.refunds == {}
    assert await practice.db.fetchval("select count(*) from clinic.payments") == 0
    assert await practice.db.fetchval("select count(*) from onceward.notices") == 0
    ours = await practice.appointment(price=8000)
    assert await practice.pay(ours, 8000, intent=intent, app="") == "paid"


@pytest.mark.parametrize("way", ["webhook", "schedule"])
@pytest.mark.parametrize(("end", "stored"), [("succeeded", "succeeded"), ("canceled", "failed")])
async def test_a_refund_that_waits_for_the_bank_ends(practice: Practice, way: str, end: str, stored: str) -> None:
    appointment = await practice.appointment(price=8000)
    await practice.pay(appointment, 8000, intent=await paid_at_stripe(practice, 8000))
    practice.stripe.books.next_refund_statuses.append("pending")
    async with practice.acting() as tx:
        await appointment_payments.refund(tx, appointment, amount=None, reason="", key="all", actor=ACTOR)
    await practice.drain()
    assert (await practice.status(appointment))[1] == "refund_pending"
    [reference] = practice.stripe.books.refunds
    refund = practice.stripe.move_refund(reference, end)
    if way == "webhook":
        assert await practice.stripe_event("refund.updated", refund) == f"refund_{stored}"
    else:
        row = await practice.db.fetchrow("select id from clinic.refunds")
        async with practice.acting() as tx:
            await schedules.ask_about_refund(row, tx)
        await practice.drain()
    assert await practice.db.fetchval("select status from clinic.refunds") == stored
    assert (await practice.status(appointment))[1] == ("refunded" if end == "succeeded" else "paid")


@pytest.mark.parametrize("won", [True, False])
async def test_a_payment_that_the_bank_took_back_is_not_shown_as_paid(practice: Practice, won: bool) -> None:
    appointment = await practice.appointment(price=8000)
    intent = await paid_at_stripe(practice, 8000)
    await practice.pay(appointment, 8000, intent=intent)
    inquiry = {"id": "du_1", "status": "warning_needs_response", "payment_intent": intent}
    assert await practice.stripe_event("charge.dispute.created", inquiry) == "inquiry"
    assert (await practice.status(appointment))[1] == "paid"
    opened = dict(practice.stripe.open_dispute(intent))
    assert await practice.stripe_event("charge.dispute.created", opened) == "dispute_open"
    assert (await practice.status(appointment))[1] == "disputed"
    async with practice.acting() as tx:
        with pytest.raises(NotRefundable):
            await appointment_payments.refund(tx, appointment, amount=None, reason="", key="x", actor=ACTOR)
    closed = practice.stripe.close_dispute(opened["id"], won=won)
    await practice.stripe_event("charge.dispute.closed", closed)
    await practice.stripe_event("charge.dispute.updated", opened)  # an older event that comes late
    assert (await practice.status(appointment))[1] == ("paid" if won else "charged_back")
    notices = await practice.db.fetchval("select count(*) from onceward.notices where type = 'CLINIC_DISPUTE'")
    assert notices == (1 if won else 2)


async def test_a_payment_link_is_opened_once_and_sent(practice: Practice) -> None:
    appointment = await practice.appointment(price=8000)
    async with practice.acting() as tx:
        await appointment_payments.request_link(tx, appointment)
    await practice.drain()
    row = await practice.row(appointment)
    assert row["payment_status"] == "pending"
    assert row["payment_url"]
    [session] = practice.stripe.books.sessions.values()
    assert session["metadata"]["appointment_id"] == str(appointment)
    assert session["metadata"]["app"] == "clinic"
    base = practice.app.services.settings.url
    assert session["success_url"] == f"{base}/clinic/paid?appointment={appointment}"
    assert session["cancel_url"] == f"{base}/clinic/unpaid?appointment={appointment}"
    [sent] = practice.whatsapp.messages
    assert sent["template"]["name"] == "clinic_payment_link"


async def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once(practice: Practice) -> None:
    found = {"id": "pi_1", "amount": "much", "currency": "sgd", "metadata": {"app": "clinic"}}
    assert await practice.stripe_event("payment_intent.succeeded", found, event_id="evt_bad") is None
    row: Any = await practice.db.fetchrow("select status, attempts from webhook_events where event_id = 'evt_bad'")
    assert tuple(row) == ("dead_letter", 1)
