"""What the simulators send is what our own inbox verifies and reads: the two were written apart."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from onceward.integrations.brevo import Brevo, Mailbox
from onceward.integrations.calcom import Attendee, CalCom
from onceward.integrations.paypal import PayPal
from onceward.integrations.stripe.client import Stripe
from onceward.integrations.twilio import Twilio
from onceward.integrations.whatsapp import WhatsApp
from onceward.testing.simulators import CustomerEndpoint, Received
from onceward.webhooks.provider import ReceivedItem, Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider
from tests.outcomes import reference_of

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"


async def _no_fetch(url: str, **_: Any) -> bytes:
    raise AssertionError(f"the certificate of {url} is configured and must not be fetched")


async def read(config: SourceConfig, received: Received) -> list[ReceivedItem]:
    provider = get_provider(config.provider)
    request = Request(received.method, received.path, "", received.headers, received.body)
    if provider.fetches:
        request = await provider.prepare(config, request, _no_fetch)
    provider.verify(config, request, time.time())
    return provider.parse(config, request)


async def types(config: SourceConfig, receiver: CustomerEndpoint) -> set[str]:
    return {item.type for received in receiver.received for item in await read(config, received)}


async def test_stripe_payments_and_refunds_are_read_by_the_inbox(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.stripe.send_webhooks_to(receiver.hook_url, secret="whsec_simulated")
        stripe = Stripe(client, "sk_test_1", sims.stripe.url)
        price = {"currency": "eur", "unit_amount": 500, "product_data": {"name": "Seat"}}
        made = await stripe.create_checkout_session(
            key="k",
            line_items=[{"quantity": 1, "price_data": price}],
            success_url="http://127.0.0.1:9/",
            cancel_url="http://127.0.0.1:9/",
        )
        payment = sims.stripe.pay(reference_of(made))["payment_intent"]
        await stripe.create_refund(key="r", payment_intent=payment)
        await sims.stripe.webhooks.settle()
    assert await types(SourceConfig(provider="stripe", secrets=("whsec_simulated",)), receiver) == {
        "charge.succeeded",
        "payment_intent.succeeded",
        "checkout.session.completed",
        "refund.created",
        "charge.refunded",
    }


async def test_paypal_captures_are_read_by_the_inbox_and_a_changed_body_is_not(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.paypal.send_webhooks_to(receiver.hook_url)
        paypal = PayPal(client, client_id="id", client_secret="s", base_url=sims.paypal.url)
        order = await paypal.create_order(
            key="k",
            amount_minor=500,
            currency="EUR",
            custom_id="c",
            return_url="http://127.0.0.1:9/",
            cancel_url="http://127.0.0.1:9/",
        )
        sims.paypal.approve(reference_of(order))
        await paypal.capture_order(reference_of(order), key="c")
        await sims.paypal.webhooks.settle()
    config = SourceConfig(provider="paypal", options=sims.paypal.source_options)
    assert await types(config, receiver) == {"CHECKOUT.ORDER.APPROVED", "PAYMENT.CAPTURE.COMPLETED"}
    first = receiver.received[0]
    forged = Received(first.method, first.path, {}, first.headers, first.body.replace(b"5.00", b"9.00"))
    with pytest.raises(Rejected) as caught:
        await read(config, forged)
    assert caught.value.reason == "bad_signature"


async def test_calcom_bookings_are_read_by_the_inbox(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.calcom.send_webhooks_to(receiver.hook_url, secret="cal-secret")
        cal = CalCom(client, "cal_1", sims.calcom.url)
        attendee = Attendee("Ada", "ada@example.com")
        made = await cal.create_booking(key="k", event_type_id=7, start=datetime.now(UTC), attendee=attendee)
        moved = await cal.reschedule_booking(reference_of(made), start=datetime.now(UTC), reason="ill")
        await cal.cancel_booking(reference_of(moved), reason="ill")
        await sims.calcom.webhooks.settle()
    config = SourceConfig(provider="calcom", secrets=("cal-secret",))
    assert await types(config, receiver) == {"BOOKING_CREATED", "BOOKING_RESCHEDULED", "BOOKING_CANCELLED"}


async def test_twilio_status_callbacks_are_read_by_the_inbox(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        twilio = Twilio(client, sims.twilio.account_sid, sims.twilio.auth_token, base_url=sims.twilio.url)
        await twilio.send_message(to="+1555", from_="+1556", body="x", status_callback=receiver.hook_url)
        await sims.twilio.webhooks.settle()
        config = SourceConfig(provider="twilio", secrets=(sims.twilio.auth_token,), public_url=receiver.url)
    assert await types(config, receiver) == {"message.sent", "message.delivered"}


async def test_whatsapp_statuses_and_replies_are_read_by_the_inbox(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.whatsapp.send_webhooks_to(receiver.hook_url)
        whatsapp = WhatsApp(client, sims.whatsapp.phone_number_id, "token", sims.whatsapp.url)
        await whatsapp.send_text(key="m:1", to="15550001111", text="Grüße 🎟")
        sims.whatsapp.receive_text("15550001111", "stop")
        await sims.whatsapp.webhooks.settle()
    config = SourceConfig(provider="whatsapp", secrets=(sims.whatsapp.app_secret,))
    assert await types(config, receiver) == {"status.sent", "status.delivered", "message.text"}


async def test_daily_meetings_and_recordings_are_read_by_the_inbox(sims) -> None:
    secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    async with CustomerEndpoint() as receiver:
        sims.daily.send_webhooks_to(receiver.hook_url, secret=secret)
        session = sims.daily.join("visit-7")
        recording = sims.daily.start_recording("visit-7")
        sims.daily.finish_recording(recording)
        sims.daily.fail_recording(sims.daily.start_recording("visit-7"))
        sims.daily.leave(session)
        await sims.daily.webhooks.settle()
    config = SourceConfig(provider="daily", secrets=(secret,))
    assert await types(config, receiver) == {
        "meeting.started",
        "participant.joined",
        "recording.started",
        "recording.ready-to-download",
        "recording.error",
        "participant.left",
        "meeting.ended",
    }
    orders = {item.ordering for received in receiver.received for item in await read(config, received)}
    assert orders == {"visit-7"}


async def test_brevos_reports_are_read_by_the_inbox(client, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.brevo.send_webhooks_to(receiver.hook_url, token="a-long-token")
        sims.brevo.bouncing.add("gone@example.com")
        to = [Mailbox("ada@example.com"), Mailbox("gone@example.com")]
        brevo = Brevo(client, "key", sims.brevo.url)
        sent = await brevo.send_email(key="m:1", sender=Mailbox("a@example.com"), to=to, subject="Hi", text="Hi")
        for event in ("spam", "unsubscribed"):
            sims.brevo.report(reference_of(sent), event)
        await sims.brevo.webhooks.settle()
    config = SourceConfig(provider="brevo", secrets=("a-long-token",))
    assert await types(config, receiver) == {"request", "delivered", "hard_bounce", "spam", "unsubscribed"}
    items = [item for received in receiver.received for item in await read(config, received)]
    assert len({item.event_id for item in items}) == 5
    batch = replace(receiver.received[0], body=b"[" + b",".join(each.body for each in receiver.received) + b"]")
    assert [item.type for item in await read(config, batch)] == [item.type for item in items]
    with pytest.raises(Rejected, match="token"):
        await read(SourceConfig(provider="brevo", secrets=("another-token",)), receiver.received[0])


async def test_formbricks_responses_are_read_by_the_inbox(sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.formbricks.send_webhooks_to(receiver.hook_url, secret=SECRET)
        sims.formbricks.answer_survey("exit", {"nps": 9}, token="t1")
        await sims.formbricks.webhooks.settle()
    config = SourceConfig(provider="formbricks", secrets=(SECRET,))
    assert await types(config, receiver) == {"responseCreated", "responseUpdated", "responseFinished"}


async def test_calcom_meetings_and_no_shows_are_read_by_the_inbox(client, sims) -> None:
    sims.calcom.needs_confirmation.add(8)
    async with CustomerEndpoint() as receiver:
        sims.calcom.send_webhooks_to(receiver.hook_url, secret="cal-secret")
        cal = CalCom(client, "cal_1", sims.calcom.url)
        booked = sims.calcom.book(event_type_id=7, start=datetime.now(UTC), name="Ada", email="ada@example.com")
        sims.calcom.end_meeting(booked["uid"])
        sims.calcom.end_meeting(booked["uid"], flat=False)
        await cal.mark_absent(booked["uid"], emails=["ada@example.com"])
        attendee = Attendee("Bo", "bo@example.com")
        asked = await cal.create_booking(key="k", event_type_id=8, start=datetime.now(UTC), attendee=attendee)
        await cal.decline_booking(reference_of(asked), reason="full")
        await sims.calcom.webhooks.settle()
    config = SourceConfig(provider="calcom", secrets=("cal-secret",))
    assert await types(config, receiver) == {
        "BOOKING_CREATED",
        "MEETING_ENDED",
        "BOOKING_NO_SHOW_UPDATED",
        "BOOKING_REQUESTED",
        "BOOKING_REJECTED",
    }


async def test_messages_from_people_are_read_by_the_inbox(sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.twilio.send_webhooks_to(receiver.hook_url)
        sims.twilio.receive_text("+15550001111", "Grüße")
        await sims.twilio.webhooks.settle()
        config = SourceConfig(provider="twilio", secrets=(sims.twilio.auth_token,), public_url=receiver.url)
        assert await types(config, receiver) == {"message.received"}
    async with CustomerEndpoint() as receiver:
        sims.whatsapp.send_webhooks_to(receiver.hook_url)
        sims.whatsapp.receive_button("15550001111", "help", "Help")
        sims.whatsapp.receive_choice("15550001111", "later", "Later")
        await sims.whatsapp.webhooks.settle()
    config = SourceConfig(provider="whatsapp", secrets=(sims.whatsapp.app_secret,))
    assert await types(config, receiver) == {"message.button", "message.interactive"}


async def test_a_webhook_can_come_late_in_another_order_and_twice_under_one_id(sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.formbricks.send_webhooks_to(receiver.hook_url, secret=SECRET)
        sims.formbricks.webhooks.hold()
        sims.formbricks.answer_survey("exit", {"nps": 9})
        assert receiver.received == []
        assert sims.formbricks.webhooks.release(reverse=True) == 3
        await sims.formbricks.webhooks.settle()
        sims.formbricks.webhooks.repeat(sims.formbricks.webhooks.deliveries[0])
        await sims.formbricks.webhooks.settle()
    config = SourceConfig(provider="formbricks", secrets=(SECRET,))
    ids = [item.event_id for received in receiver.received for item in await read(config, received)]
    assert len(ids) == 4
    assert len(set(ids)) == 3
