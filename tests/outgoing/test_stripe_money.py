"""Stripe's own library against the simulator: captures, disputes, payouts, balances, events, accounts."""

import asyncio
from typing import Any

import pytest
import stripe as sdk

from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.stripe.client import Stripe
from onceward.services.outcome import Accepted
from onceward.testing.simulators import CustomerEndpoint


@pytest.fixture
async def sim():
    async with StripeSimulator(retry_delays_s=()) as sim:
        yield sim


def official(sim: StripeSimulator, **options: Any) -> Any:
    return sdk.StripeClient("sk_test_1", base_addresses={"api": sim.url}, max_network_retries=0, **options)


async def paid(client: Any, amount: int = 5000, **fields: Any) -> Any:
    """Return a payment intent that was paid with a card."""
    create, confirm = client.v1.payment_intents.create, client.v1.payment_intents.confirm
    made = await asyncio.to_thread(create, {"amount": amount, "currency": "eur", **fields})
    return await asyncio.to_thread(confirm, made.id, {"payment_method": "pm_card_visa"})


async def test_reserved_money_is_captured_in_part_and_cannot_be_captured_twice(sim) -> None:
    client = official(sim)
    reserved = await paid(client, capture_method="manual")
    assert (reserved.status, reserved.amount_capturable) == ("requires_capture", 5000)
    capture = client.v1.payment_intents.capture
    taken = await asyncio.to_thread(capture, reserved.id, {"amount_to_capture": 4000})
    assert (taken.status, taken.amount_received) == ("succeeded", 4000)
    with pytest.raises(sdk.InvalidRequestError, match="status of succeeded"):
        await asyncio.to_thread(capture, reserved.id)


async def test_the_balance_adds_up_over_a_payment_a_refund_a_dispute_and_payouts(sim) -> None:
    client = official(sim)
    first, second = await paid(client), await paid(client)
    await asyncio.to_thread(client.v1.refunds.create, {"payment_intent": first.id, "amount": 1000})
    dispute = sim.open_dispute(second.id)
    read = await asyncio.to_thread(client.v1.disputes.retrieve, dispute["id"])
    assert [each.fee for each in read.balance_transactions] == [1500]
    with pytest.raises(sdk.InvalidRequestError) as refused:
        await asyncio.to_thread(client.v1.refunds.create, {"payment_intent": second.id})
    assert refused.value.code == "charge_disputed"
    sim.close_dispute(dispute["id"], won=True)
    charge = await asyncio.to_thread(
        client.v1.charges.retrieve, first.latest_charge, {"expand": ["balance_transaction"]}
    )
    assert charge.balance_transaction.fee == 175
    payout = sim.pay_out("EUR")
    sim.end_payout(payout["id"])
    listed = await asyncio.to_thread(client.v1.balance_transactions.list, {"payout": payout["id"], "limit": 100})
    assert {each.type for each in listed.data} == {"charge", "refund", "adjustment", "payout"}
    assert sum(each.net for each in listed.data) == 0
    await paid(client)
    back = sim.end_payout(sim.pay_out("eur")["id"], failure_code="account_closed")
    payouts = await asyncio.to_thread(client.v1.payouts.list, {"created": {"gte": payout["created"]}})
    assert [(each.id, each.status) for each in payouts.data] == [(back["id"], "failed"), (payout["id"], "paid")]


async def test_an_inquiry_is_refunded_or_becomes_a_dispute_of_the_rest(sim) -> None:
    client = official(sim)
    first, second = await paid(client), await paid(client)
    closed, grown = (sim.open_dispute(each.id, inquiry=True)["id"] for each in (first, second))
    await asyncio.to_thread(client.v1.refunds.create, {"payment_intent": first.id})
    await asyncio.to_thread(client.v1.refunds.create, {"payment_intent": second.id, "amount": 2000})
    sim.escalate_dispute(grown)
    sim.answer_dispute(grown)
    listed = await asyncio.to_thread(client.v1.disputes.list, {"limit": 10})
    assert {each.id: (each.status, each.amount) for each in listed.data} == {
        closed: ("warning_closed", 5000),
        grown: ("under_review", 3000),
    }


async def test_events_are_listed_after_an_event_oldest_first_as_the_official_library_does(client, sim) -> None:
    library, ours = official(sim), Stripe(client, "sk_test_1", sim.url)
    await paid(library)
    [start, *_] = sim.books.events
    for _ in range(60):
        await paid(library)
    expected = list(sim.books.events)[1:]
    page = await asyncio.to_thread(library.v1.events.list, {"ending_before": start, "limit": 100})
    theirs = await asyncio.to_thread(lambda: [each.id for each in page.auto_paging_iter()])
    assert theirs == expected
    mine: list[str] = []
    after, has_more = start, True
    while has_more:
        answer = await ours.list_events(after=after)
        assert isinstance(answer, Accepted)
        mine += [each["id"] for each in answer.detail["events"]]
        after, has_more = mine[-1], answer.detail["has_more"]
    assert mine == expected
    oldest = await ours.list_events(created_from=0)
    assert isinstance(oldest, Accepted)
    assert oldest.detail["events"][0]["id"] == start
    assert oldest.detail["has_more"]
    with pytest.raises(sdk.InvalidRequestError):
        await asyncio.to_thread(library.v1.events.list, {"ending_before": "evt_unknown"})


async def test_a_stored_failure_is_repeated_under_its_key_and_other_parameters_are_refused(sim) -> None:
    client = official(sim)
    create, same = client.v1.payment_intents.create, {"idempotency_key": "k"}
    sim.break_next()
    for _ in range(2):
        with pytest.raises(sdk.APIError):
            await asyncio.to_thread(create, {"amount": 500, "currency": "eur"}, same)
    assert sim.books.intents == {}
    with pytest.raises(sdk.IdempotencyError):
        await asyncio.to_thread(create, {"amount": 600, "currency": "eur"}, same)
    sim.fail_next(on="POST /v1/payment_intents")
    await asyncio.to_thread(client.v1.balance.retrieve)
    with pytest.raises(sdk.APIError):
        await asyncio.to_thread(create, {"amount": 600, "currency": "eur"}, {"idempotency_key": "k2"})
    assert (await asyncio.to_thread(create, {"amount": 600, "currency": "eur"}, {"idempotency_key": "k2"})).id


@pytest.mark.parametrize(
    ("currency", "good", "bad"),
    [("isk", 500, 550), ("ugx", 500, 501), ("kwd", 12340, 12345), ("jpy", 501, None), ("huf", 12345, None)],
)
async def test_amounts_follow_the_steps_of_their_currency(sim, currency: str, good: int, bad: int | None) -> None:
    client = official(sim)
    made = await paid(client, good, currency=currency)
    assert made.amount_received == good
    if bad is not None:
        with pytest.raises(sdk.InvalidRequestError, match="multiple"):
            await asyncio.to_thread(client.v1.payment_intents.create, {"amount": bad, "currency": currency})
    if currency == "huf":
        assert sim.pay_out("huf")["amount"] % 100 == 0


async def test_accounts_do_not_see_each_other_and_each_has_its_own_endpoint(sim) -> None:
    platform, shop = official(sim), official(sim, stripe_account="acct_shop")
    other = sdk.StripeClient("sk_test_other", base_addresses={"api": sim.url}, max_network_retries=0)
    async with CustomerEndpoint() as receiver:
        sim.send_webhooks_to(receiver.hook_url, secret="whsec_platform")
        sim.send_webhooks_to(receiver.hook_url, secret="whsec_other", account="sk_test_other")
        made = [await paid(each) for each in (platform, shop, other)]
        await sim.webhooks.settle()
        secrets = {made[0].id: "whsec_platform", made[1].id: "whsec_platform", made[2].id: "whsec_other"}
        accounts: dict[str, str | None] = {}
        for each in receiver.received:
            payment = each.json["data"]["object"].get("payment_intent") or each.json["data"]["object"]["id"]
            event = sdk.Webhook.construct_event(each.body, each.headers["stripe-signature"], secrets[payment])
            accounts[payment] = event.to_dict().get("account")
    assert accounts == {made[0].id: None, made[1].id: "acct_shop", made[2].id: None}
    for client, payment in ((platform, made[1]), (shop, made[0]), (other, made[0]), (platform, made[2])):
        with pytest.raises(sdk.InvalidRequestError):
            await asyncio.to_thread(client.v1.payment_intents.retrieve, payment.id)
        with pytest.raises(sdk.InvalidRequestError):
            await asyncio.to_thread(client.v1.refunds.create, {"payment_intent": payment.id})


async def test_webhooks_can_be_lost_or_doubled(sim) -> None:
    client = official(sim)
    async with CustomerEndpoint() as receiver:
        sim.send_webhooks_to(receiver.hook_url, secret="whsec_1")
        sim.webhooks.lose(1)
        sim.webhooks.double(1)
        await paid(client)
        await sim.webhooks.settle()
        got = [each.json["type"] for each in receiver.received]
    assert got == ["payment_intent.succeeded", "payment_intent.succeeded"]
    assert [each["type"] for each in sim.books.events.values()] == ["charge.succeeded", "payment_intent.succeeded"]
