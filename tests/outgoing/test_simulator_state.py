"""A simulator that keeps its state knows after a restart what it did before, at the same address."""

from datetime import UTC, datetime

from aiohttp import ClientSession

from onceward.integrations.mixpanel import Mixpanel, MixpanelSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.stripe.client import Stripe
from onceward.services.analytics import AnalyticsEvent
from onceward.services.outcome import Accepted
from onceward.testing.simulators import Simulators
from onceward.testing.simulators.state import decode, encode
from tests.outcomes import detail_of, reference_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_a_restarted_simulator_knows_payments_keys_and_its_address(client, tmp_path) -> None:
    async def started() -> StripeSimulator:
        sim = StripeSimulator(retry_delays_s=())
        sim.keep_in(tmp_path)
        await sim.start()
        return sim

    first = await started()
    url = first.url
    stripe = Stripe(client, "sk_test_1", url)
    price = {"currency": "eur", "unit_amount": 500, "product_data": {"name": "Seat"}}
    order = {"line_items": [{"price_data": price}], "success_url": "http://x/", "cancel_url": "http://x/"}
    made = await stripe.create_checkout_session(key="k", **order)
    paid = first.pay(reference_of(made))
    await first.stop()

    second = await started()
    try:
        assert second.url == url
        again = await stripe.create_checkout_session(key="k", **order)
        assert reference_of(again) == reference_of(made), "the idempotency key is remembered"
        assert detail_of(await stripe.retrieve_checkout_session(reference_of(made)))["payment_status"] == "paid"
        assert isinstance(await stripe.create_refund(key="r", payment_intent=paid["payment_intent"]), Accepted)
    finally:
        await second.stop()


async def test_a_payment_page_that_somebody_has_seen_survives_a_kill(client, tmp_path) -> None:
    killed = StripeSimulator(retry_delays_s=())
    killed.keep_in(tmp_path)
    await killed.start()
    price = {"currency": "eur", "unit_amount": 500, "product_data": {"name": "Seat"}}
    order = {"line_items": [{"price_data": price}], "success_url": "http://x/", "cancel_url": "http://x/"}
    made = detail_of(await Stripe(client, "sk_test_1", killed.url).create_checkout_session(key="k", **order))
    before = (tmp_path / "stripe.json").read_text()
    async with ClientSession() as browser, browser.get(made["url"]) as page:
        assert page.status == 200
    seen = (tmp_path / "stripe.json").read_text()
    await killed.stop()
    assert made["id"] not in before, "calls of the API are saved now and then"
    assert made["id"] in seen


async def test_a_restarted_simulator_still_drops_duplicates(client, tmp_path) -> None:
    event = AnalyticsEvent("e:1", "Sold", "u1", NOW, {"a": 1})
    for _ in range(2):
        sim = MixpanelSimulator()
        sim.keep_in(tmp_path)
        async with sim:
            await Mixpanel(client, "token", base_url=sim.url).import_events([event])
            assert len(sim.events) == 1


async def test_every_simulator_names_only_attributes_that_can_be_kept(tmp_path) -> None:
    sims = Simulators()
    for each in sims.over_http:
        each.keep_in(tmp_path)
        for name in each.kept:
            assert hasattr(each, name), (each, name)
    async with sims:
        pass
    assert len(list(tmp_path.glob("*.json"))) == len(sims.over_http)


def test_values_that_json_does_not_have_come_back() -> None:
    value = {"a": (1, b"x"), "b": {("t", None)}, "c": [{"d": True}]}
    assert decode(encode(value)) == value
