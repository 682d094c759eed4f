"""The vendors' own libraries work against our simulators, and send the same requests as our clients."""

import asyncio
from typing import Any

import pytest
import stripe as stripe_library
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from twilio.base.exceptions import TwilioRestException
from twilio.rest import Client as TwilioLibrary

from onceward.integrations.slack import Slack
from onceward.integrations.stripe.client import Stripe
from onceward.integrations.twilio import Twilio
from onceward.services.outcome import Accepted
from onceward.testing.simulators import CustomerEndpoint, Simulators
from tests.outcomes import detail_of, reference_of

PRICE: Any = {
    "currency": "eur",
    "unit_amount": 900,
    "product_data": {"name": "Course"},
    "recurring": {"interval": "month"},
}
URLS: Any = {"success_url": "http://127.0.0.1:9/ok", "cancel_url": "http://127.0.0.1:9/no"}


def fields(sims: Simulators, number: int) -> dict[str, str]:
    return {name: value for name, value in sims.stripe.received[number].form.items() if "onceward_key" not in name}


async def test_a_stripe_subscription_by_the_official_library_and_by_ours(client, sims) -> None:
    official = stripe_library.StripeClient("sk_test_1", base_addresses={"api": sims.stripe.url}, max_network_retries=0)
    ours = Stripe(client, "sk_test_1", sims.stripe.url)
    items: Any = [{"quantity": 1, "price_data": PRICE}]
    metadata = {"app": "learning"}
    params: Any = {
        "mode": "subscription",
        "line_items": items,
        "metadata": metadata,
        "subscription_data": {"metadata": metadata},
        **URLS,
    }
    await asyncio.to_thread(official.v1.checkout.sessions.create, params)
    made = await ours.create_checkout_session(key="k", mode="subscription", line_items=items, metadata=metadata, **URLS)
    assert isinstance(made, Accepted)
    assert fields(sims, 0) == fields(sims, 1)

    session = sims.stripe.pay(reference_of(made))
    subscription_id = session["subscription"]
    theirs = await asyncio.to_thread(official.v1.subscriptions.retrieve, subscription_id)
    mine = await ours.retrieve_subscription(subscription_id)
    assert theirs.status == detail_of(mine)["status"] == "active"
    assert theirs.metadata["app"] == "learning"
    sims.stripe.renew(subscription_id)
    invoices = await asyncio.to_thread(official.v1.invoices.list, {"subscription": subscription_id})
    listed = await ours.list_invoices(subscription=subscription_id)
    assert [each.id for each in invoices.data] == [each["id"] for each in detail_of(listed)["invoices"]]
    assert [each.amount_paid for each in invoices.data] == [900, 900]
    with pytest.raises(stripe_library.InvalidRequestError):
        await asyncio.to_thread(official.v1.invoices.retrieve, "in_unknown")


async def test_the_life_of_a_subscription_reaches_us_as_webhooks_that_the_official_library_verifies(
    client, sims
) -> None:
    stripe = Stripe(client, "sk_test_1", sims.stripe.url)
    async with CustomerEndpoint() as receiver:
        sims.stripe.send_webhooks_to(receiver.hook_url, secret="whsec_simulated")
        made = await stripe.create_checkout_session(
            key="k", mode="subscription", line_items=[{"quantity": 1, "price_data": PRICE}], **URLS
        )
        subscription = sims.stripe.pay(reference_of(made))["subscription"]
        first_end = sims.stripe.billing.subscriptions[subscription]["items"]["data"][0]["current_period_end"]
        failed = sims.stripe.renew(subscription, declined=True)
        assert detail_of(await stripe.retrieve_subscription(subscription))["status"] == "past_due"
        sims.stripe.retry_invoice(failed["id"])
        assert detail_of(await stripe.retrieve_invoice(failed["id"]))["attempt_count"] == 2
        current = detail_of(await stripe.retrieve_subscription(subscription))
        assert current["items"]["data"][0]["current_period_start"] == first_end
        await stripe.cancel_subscription(subscription, key="end")
        sims.stripe.renew(subscription)
        assert isinstance(await stripe.cancel_subscription(subscription, key="now", at_period_end=False), Accepted)
        await sims.stripe.webhooks.settle()
    events = [
        stripe_library.Webhook.construct_event(each.body, each.headers["stripe-signature"], "whsec_simulated")
        for each in receiver.received
    ]
    types = [event.type for event in events]
    assert {
        "customer.subscription.created",
        "invoice.payment_succeeded",
        "invoice.payment_failed",
        "customer.subscription.updated",
        "customer.subscription.deleted",
        "checkout.session.completed",
    } <= set(types)
    assert types.count("invoice.paid") == 2


async def test_a_late_and_a_free_payment_complete_the_session_unpaid(client, sims) -> None:
    stripe = Stripe(client, "sk_test_1", sims.stripe.url)

    async def session(key: str, unit_amount: int) -> str:
        price = {"currency": "eur", "unit_amount": unit_amount, "product_data": {"name": "Seat"}}
        made = await stripe.create_checkout_session(key=key, line_items=[{"price_data": price}], **URLS)
        assert isinstance(made, Accepted)
        return reference_of(made)

    free, late, given_up = await session("a", 0), await session("b", 500), await session("c", 500)
    assert sims.stripe.pay(free)["payment_status"] == "no_payment_required"
    assert sims.stripe.pay_later(late)["payment_status"] == "unpaid"
    assert sims.stripe.end_late_payment(late, succeeded=True)["payment_status"] == "paid"
    assert sims.stripe.expire(given_up)["status"] == "expired"
    types = [event["type"] for event in sims.stripe.books.events.values()]
    assert types.count("checkout.session.completed") == 2
    assert {"checkout.session.async_payment_succeeded", "checkout.session.expired"} <= set(types)


async def test_twilio_by_the_official_library_and_by_ours(client, sims) -> None:
    official = TwilioLibrary(sims.twilio.account_sid, sims.twilio.auth_token)
    official.api.base_url = sims.twilio.url
    ours = Twilio(client, sims.twilio.account_sid, sims.twilio.auth_token, sender="+1556", base_url=sims.twilio.url)
    made = await asyncio.to_thread(official.messages.create, to="+1555", from_="+1556", body="Grüße")
    await ours.send_message(to="+1555", body="Grüße")
    first, second = sims.twilio.received
    assert (first.path, first.form) == (second.path, second.form)
    assert first.headers["authorization"] == second.headers["authorization"]
    fetched = await asyncio.to_thread(official.messages(made.sid or "").fetch)
    assert fetched.status == detail_of(await ours.fetch_message(made.sid or ""))["status"] == "queued"
    with pytest.raises(TwilioRestException) as refused:
        await asyncio.to_thread(official.messages.create, to="+15005550001", from_="+1556", body="x")
    assert refused.value.code == 21211


async def test_slack_by_the_official_library_and_by_ours(client, sims) -> None:
    official = WebClient(token="xoxb-1", base_url=f"{sims.slack.url}/api/")
    ours = Slack(client, "xoxb-1", sims.slack.url)
    made = await asyncio.to_thread(official.chat_postMessage, channel="#ops", text="Hello")
    assert made["ok"]
    await ours.post_message(key="k", channel="#ops", text="Hello")
    first, second = sims.slack.received
    assert first.path == second.path
    assert {name: second.json[name] for name in ("channel", "text")} == {"channel": "#ops", "text": "Hello"}
    sims.slack.archived.add("#old")
    with pytest.raises(SlackApiError, match="is_archived"):
        await asyncio.to_thread(official.chat_postMessage, channel="#old", text="Hello")
