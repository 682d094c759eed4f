"""Stripe, by our calls and by Stripe's own SDK, against the simulator; and its payment page and webhooks."""

import asyncio
from typing import Any

import aiohttp
import pytest
import stripe as sdk

from onceward.http import Response
from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.stripe.api import judge
from onceward.integrations.stripe.client import KEY_LIFETIME_S, Stripe
from onceward.services.outcome import Absent, Accepted, Refused, Unknown
from onceward.testing.simulators import CustomerEndpoint
from tests.outcomes import reference_of

WEBHOOK_SECRET = "whsec_test_secret_of_the_simulator"
ITEMS: list[Any] = [
    {
        "quantity": 2,
        "price_data": {"currency": "eur", "unit_amount": 2500, "product_data": {"name": "Seat <A12>"}},
    }
]


@pytest.fixture
async def sim():
    async with StripeSimulator(retry_delays_s=(0.05, 0.05)) as sim:
        yield sim


@pytest.fixture
def stripe(client, sim) -> Stripe:
    return Stripe(client, "sk_test_1", sim.url)


async def paid_session(stripe: Stripe, sim: StripeSimulator, key: str = "job:1:checkout") -> Accepted:
    outcome = await stripe.create_checkout_session(
        key=key,
        line_items=ITEMS,
        success_url="http://127.0.0.1:9/done?session={CHECKOUT_SESSION_ID}",
        cancel_url="http://127.0.0.1:9/back",
        client_reference_id="checkout-7",
        customer_email="ada@example.com",
        metadata={"checkout_id": "7"},
    )
    sim.pay(reference_of(outcome))
    found = await stripe.retrieve_checkout_session(reference_of(outcome))
    assert isinstance(found, Accepted)
    return found


async def test_a_refund_is_made_once_per_key(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    first = await stripe.create_refund(key="event:9:refund", payment_intent=payment, amount_minor=1000)
    again = await stripe.create_refund(key="event:9:refund", payment_intent=payment, amount_minor=1000)
    assert isinstance(first, Accepted)
    assert first == again
    assert len(sim.books.refunds) == 1
    assert sim.received[-1].headers["idempotency-key"] == "event:9:refund"


async def test_the_same_key_with_other_parameters_is_refused_for_good(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    await stripe.create_refund(key="k", payment_intent=payment, amount_minor=1000)
    outcome = await stripe.create_refund(key="k", payment_intent=payment, amount_minor=2000)
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert "idempotency_error" in outcome.reason


async def test_refunds_never_exceed_the_charge(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    assert isinstance(await stripe.create_refund(key="a", payment_intent=payment, amount_minor=3000), Accepted)
    over = await stripe.create_refund(key="b", payment_intent=payment, amount_minor=2001)
    rest = await stripe.create_refund(key="c", payment_intent=payment)
    none = await stripe.create_refund(key="d", payment_intent=payment)
    assert isinstance(over, Refused)
    assert isinstance(rest, Accepted)
    assert rest.detail["amount"] == 2000
    assert isinstance(none, Refused)
    assert none.detail["code"] == "charge_already_refunded"


async def test_a_refund_older_than_its_key_is_looked_up_before_it_is_made(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    made = await stripe.create_refund(key="old", payment_intent=payment, amount_minor=1000)
    sim.forget_keys()
    again = await stripe.create_refund(key="old", payment_intent=payment, amount_minor=1000, key_age_s=KEY_LIFETIME_S)
    assert again.reference == made.reference
    assert len(sim.books.refunds) == 1


async def test_without_the_look_up_an_old_key_would_refund_twice(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    await stripe.create_refund(key="old", payment_intent=payment, amount_minor=1000)
    sim.forget_keys()
    await stripe.create_refund(key="old", payment_intent=payment, amount_minor=1000)
    assert len(sim.books.refunds) == 2


async def test_a_look_up_that_fails_refunds_nothing(stripe, sim) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    sim.drop_before_send(2)
    outcome = await stripe.create_refund(key="old", payment_intent=payment, key_age_s=KEY_LIFETIME_S)
    assert isinstance(outcome, Unknown)
    assert sim.books.refunds == {}


async def test_a_look_up_reads_every_page(stripe, sim, client) -> None:
    payment = (await paid_session(stripe, sim)).detail["payment_intent"]
    for number in range(103):
        await stripe.create_refund(key=f"k{number}", payment_intent=payment, amount_minor=1)
    found = await stripe.find_refund(key="k0", payment_intent=payment)
    assert isinstance(found, Accepted)
    assert found.detail["metadata"]["onceward_key"] == "k0"
    assert await stripe.find_refund(key="k999", payment_intent=payment) == Absent()


async def test_an_old_payment_intent_is_found_by_its_key(stripe, sim) -> None:
    made = await stripe.create_payment_intent(key="old:'1", amount_minor=500, currency="EUR")
    sim.forget_keys()
    fresh = await stripe.create_payment_intent(key="other", amount_minor=500, currency="EUR", key_age_s=1e6)
    assert isinstance(made, Accepted)
    assert fresh.reference != made.reference
    again = await stripe.create_payment_intent(key="other", amount_minor=500, currency="EUR", key_age_s=1e6)
    assert again.reference == fresh.reference


async def test_an_expired_session_cannot_be_paid(stripe, sim) -> None:
    made = await stripe.create_checkout_session(
        key="k", line_items=ITEMS, success_url="http://127.0.0.1:9/", cancel_url="http://127.0.0.1:9/"
    )
    assert isinstance(await stripe.expire_checkout_session(made.reference, key="x"), Accepted)
    async with aiohttp.ClientSession() as browser:
        page = await browser.post(made.detail["url"], data={"choice": "pay"}, allow_redirects=False)
        assert "has expired" in await page.text()
    assert sim.books.charges == {}


def test_stripes_own_word_on_retrying_wins() -> None:
    def is_permanent(status: int, word: str) -> bool:
        outcome = judge(Response(status, {"stripe-should-retry": word}, b'{"error":{"message":"m"}}', 1))
        assert isinstance(outcome, Refused)
        return outcome.permanent

    assert is_permanent(500, "false")
    assert not is_permanent(400, "true")
    assert is_permanent(402, "")
    assert not is_permanent(409, "")


def test_a_refund_names_one_payment_and_a_usable_key(stripe) -> None:
    with pytest.raises(ValueError, match="either payment_intent or charge"):
        asyncio.run(stripe.create_refund(key="k"))
    with pytest.raises(ValueError, match="255"):
        asyncio.run(stripe.create_refund(key="k" * 256, charge="ch_1"))


async def test_the_official_sdk_works_with_the_simulator(sim) -> None:
    official = sdk.StripeClient("sk_test_1", base_addresses={"api": sim.url}, max_network_retries=2)

    def run():
        session = official.v1.checkout.sessions.create(
            {
                "mode": "payment",
                "success_url": "http://127.0.0.1:9/",
                "line_items": ITEMS,
                "payment_intent_data": {"metadata": {"checkout_id": "7"}},
            }
        )
        loop.call_soon_threadsafe(sim.pay, session.id)
        loop.call_soon_threadsafe(sim.fail_next)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        paid = official.v1.checkout.sessions.retrieve(session.id)
        assert isinstance(paid.payment_intent, str)
        refund = official.v1.refunds.create(
            {"payment_intent": paid.payment_intent, "amount": 100}, {"idempotency_key": "sdk"}
        )
        with pytest.raises(sdk.IdempotencyError):
            official.v1.refunds.create(
                {"payment_intent": paid.payment_intent, "amount": 200}, {"idempotency_key": "sdk"}
            )
        with pytest.raises(sdk.InvalidRequestError):
            official.v1.refunds.create({"payment_intent": paid.payment_intent, "amount": 999999})
        return paid, refund

    loop = asyncio.get_running_loop()
    paid, refund = await asyncio.to_thread(run)
    assert paid.payment_status == "paid"
    assert refund.amount == 100
    assert sim.books.intents[paid.payment_intent]["metadata"]["checkout_id"] == "7"


async def test_paying_on_the_page_sends_signed_webhooks_that_stripes_sdk_accepts(stripe, sim) -> None:
    async with CustomerEndpoint() as receiver:
        sim.send_webhooks_to(receiver.hook_url, secret=WEBHOOK_SECRET)
        receiver.fail_next(2)
        made = await stripe.create_checkout_session(
            key="k",
            line_items=ITEMS,
            success_url="http://127.0.0.1:9/done?s={CHECKOUT_SESSION_ID}",
            cancel_url="http://127.0.0.1:9/back",
            customer_email="ada@example.com",
            metadata={"checkout_id": "7"},
        )
        async with aiohttp.ClientSession() as browser:
            page = await (await browser.get(made.detail["url"])).text()
            assert "50.00 EUR" in page
            assert "Seat &lt;A12&gt;" in page
            assert 'name="viewport"' in page
            declined = await browser.post(made.detail["url"], data={"choice": "decline"}, allow_redirects=False)
            assert declined.status == 402
            paid = await browser.post(made.detail["url"], data={"choice": "pay"}, allow_redirects=False)
            assert paid.headers["Location"] == f"http://127.0.0.1:9/done?s={made.reference}"
            twice = await browser.post(made.detail["url"], data={"choice": "pay"}, allow_redirects=False)
            assert twice.status == 303
        await sim.webhooks.settle()
        accepted = receiver.accepted
        signatures = {request.body: request.headers["stripe-signature"] for request in receiver.received}
    events = [sdk.Webhook.construct_event(item.body, signatures[item.body], WEBHOOK_SECRET) for item in accepted]
    assert sorted(event.type for event in events) == [
        "charge.failed",
        "charge.succeeded",
        "checkout.session.completed",
        "payment_intent.payment_failed",
        "payment_intent.succeeded",
    ]
    assert len(receiver.received) == 7
    succeeded = next(event for event in events if event.type == "charge.succeeded")
    assert succeeded.data.object.metadata["checkout_id"] == "7"
    assert succeeded.data.object.amount == 5000


async def test_a_receiver_that_never_answers_well_is_given_up_after_the_last_try(stripe, sim) -> None:
    async with CustomerEndpoint() as receiver:
        receiver.always = 500
        sim.send_webhooks_to(receiver.hook_url, secret=WEBHOOK_SECRET)
        await paid_session(stripe, sim)
        await sim.webhooks.settle()
    assert all(delivery.statuses == [500, 500, 500] for delivery in sim.webhooks.deliveries)


async def test_the_official_sdk_reads_refunds_and_disputes_in_their_other_states(sim) -> None:
    official = sdk.StripeClient("sk_test_1", base_addresses={"api": sim.url}, max_network_retries=0)
    intent = sim.books.new_intent({"amount": "5000", "currency": "eur"})
    sim.books.charge(intent)
    sim.books.next_refund_statuses += ["pending", "requires_action"]
    create = official.v1.refunds.create
    first = await asyncio.to_thread(create, {"payment_intent": intent["id"], "amount": 3000})
    second = await asyncio.to_thread(create, {"payment_intent": intent["id"], "amount": 2000})
    assert (first.status, second.status) == ("pending", "requires_action")
    sim.move_refund(first.id, "succeeded")
    sim.move_refund(first.id, "failed", failure_reason="expired_or_canceled_card")
    sim.move_refund(second.id, "canceled")
    read = await asyncio.to_thread(official.v1.refunds.retrieve, first.id)
    assert (read.status, read.failure_reason) == ("failed", "expired_or_canceled_card")
    charge = await asyncio.to_thread(official.v1.charges.retrieve, intent["latest_charge"])
    assert (charge.amount_refunded, charge.refunded) == (0, False)
    opened = sim.open_dispute(intent["id"])
    dispute = await asyncio.to_thread(official.v1.disputes.retrieve, opened["id"])
    assert (dispute.status, dispute.amount, dispute.payment_intent) == ("needs_response", 5000, intent["id"])
    with pytest.raises(sdk.InvalidRequestError, match="charged back"):
        await asyncio.to_thread(create, {"payment_intent": intent["id"]})
    sent = [event["type"] for event in sim.books.events.values()]
    assert sent.count("charge.refund.updated") == sent.count("refund.updated") == 3
    assert sent.count("refund.failed") == 1
    assert "charge.dispute.funds_withdrawn" in sent


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_are_about_the_account_and_not_about_the_call(stripe, sim, status: int) -> None:
    sim.fail_next(status=status)
    outcome = await stripe.create_refund(key="k", payment_intent="pi_1")
    assert isinstance(outcome, Refused)
    assert (outcome.account, outcome.permanent) == (True, False)
