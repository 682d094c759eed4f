"""What the simulators send is what our own inbox verifies and reads: the two were written apart."""

import time
from datetime import UTC, datetime

import pytest

from onceward.providers.inbound.provider import ReceivedItem, Rejected, Request, SourceConfig
from onceward.providers.inbound.registry import get_provider
from onceward.providers.outbound.calcom import Attendee, CalCom
from onceward.providers.outbound.paypal import PayPal
from onceward.providers.outbound.stripe import Stripe
from onceward.providers.outbound.twilio import Twilio
from onceward.providers.outbound.whatsapp import WhatsApp
from onceward.testing.simulators import CustomerEndpoint, Received
from tests.outcomes import reference_of


async def _no_fetch(url: str) -> bytes:
    raise AssertionError(f"the certificate of {url} is configured and must not be fetched")


async def read(config: SourceConfig, received: Received) -> list[ReceivedItem]:
    provider = get_provider(config.provider)
    request = Request(received.method, received.path, "", received.headers, received.body)
    if provider.fetches:
        await provider.prepare(config, request, _no_fetch)
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
