"""What must hold for every service alike: each way a call can end has its outcome, and no secret shows."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward.http import Response, ServiceClient
from onceward.integrations.brevo import Brevo, Mailbox
from onceward.integrations.calcom import Attendee, CalCom
from onceward.integrations.daily import Daily
from onceward.integrations.ga4 import Ga4, Ga4Event
from onceward.integrations.hubspot import CrmRecord, HubSpot
from onceward.integrations.mixpanel import Mixpanel
from onceward.integrations.paypal import PayPal
from onceward.integrations.posthog import PostHog
from onceward.integrations.segment import Segment, SegmentCall
from onceward.integrations.slack import Slack
from onceward.integrations.stripe.client import Stripe
from onceward.integrations.twilio import Twilio
from onceward.integrations.whatsapp import WhatsApp
from onceward.services.analytics import AnalyticsEvent
from onceward.services.call import flatten_form, judge_failure, retry_after
from onceward.services.outcome import Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "xoxb-s3cret-0f-the-service"


@dataclass(frozen=True)
class Case:
    """One service: how it is built for a base URL, one call of it, and what its simulator counts."""

    name: str
    build: Callable[[Any, str], Any]
    act: Callable[[Any], Awaitable[ServiceAnswer]]
    done: Callable[[Any], int]
    warm_up: bool = False

    def __str__(self) -> str:
        return self.name


CASES = [
    Case(
        "stripe",
        lambda client, url: Stripe(client, SECRET, url),
        lambda stripe: stripe.create_payment_intent(key="job:1:pay", amount_minor=500, currency="eur"),
        lambda sim: len(sim.books.intents),
    ),
    Case(
        "paypal",
        lambda client, url: PayPal(client, client_id="id", client_secret=SECRET, base_url=url),
        lambda paypal: paypal.create_order(
            key="job:1:order",
            amount_minor=500,
            currency="EUR",
            custom_id="c1",
            return_url="http://localhost/ok",
            cancel_url="http://localhost/no",
        ),
        lambda sim: len(sim.books.orders),
        warm_up=True,
    ),
    Case(
        "calcom",
        lambda client, url: CalCom(client, SECRET, url),
        lambda cal: cal.create_booking(
            key="job:1:book", event_type_id=7, start=NOW, attendee=Attendee("Ada", "ada@example.com")
        ),
        lambda sim: len(sim.bookings),
    ),
    Case(
        "brevo",
        lambda client, url: Brevo(client, SECRET, url),
        lambda brevo: brevo.send_email(
            key="m:1", sender=Mailbox("a@example.com"), to=[Mailbox("b@example.com")], subject="Hi", text="Hi"
        ),
        lambda sim: len(sim.mails),
    ),
    Case(
        "slack",
        lambda client, url: Slack(client, SECRET, url),
        lambda slack: slack.post_message(key="m:1", channel="C1", text="hello"),
        lambda sim: len(sim.messages),
    ),
    Case(
        "twilio",
        lambda client, url: Twilio(client, "AC" + "0" * 32, "simulated", base_url=url),
        lambda twilio: twilio.send_message(to="+15550001111", from_="+15550002222", body="hello"),
        lambda sim: len(sim.messages),
    ),
    Case(
        "whatsapp",
        lambda client, url: WhatsApp(client, "100200300", SECRET, url),
        lambda whatsapp: whatsapp.send_text(key="m:1", to="15550001111", text="hello"),
        lambda sim: len(sim.messages),
    ),
    Case(
        "hubspot",
        lambda client, url: HubSpot(client, SECRET, url),
        lambda hubspot: hubspot.upsert("contacts", [CrmRecord("a@example.com", {"firstname": "Ada"})]),
        lambda sim: len(sim.records.get("contacts", {})),
    ),
    Case(
        "daily",
        lambda client, url: Daily(client, SECRET, url),
        lambda daily: daily.create_room("visit-7"),
        lambda sim: len(sim.rooms),
    ),
    Case(
        "ga4",
        lambda client, url: Ga4(client, "G-1", SECRET, url),
        lambda ga4: ga4.send([Ga4Event("purchase", {"value": 1})], client_id="1.2"),
        lambda sim: len(sim.events),
    ),
    Case(
        "mixpanel",
        lambda client, url: Mixpanel(client, SECRET, base_url=url),
        lambda mixpanel: mixpanel.import_events([AnalyticsEvent("e:1", "Sold", "u1", NOW, {"a": 1})]),
        lambda sim: len(sim.events),
    ),
    Case(
        "segment",
        lambda client, url: Segment(client, SECRET, url),
        lambda segment: segment.send([SegmentCall("e:1", "track", NOW, user_id="u1", event="Sold")]),
        lambda sim: len(sim.calls),
    ),
    Case(
        "posthog",
        lambda client, url: PostHog(client, SECRET, url),
        lambda posthog: posthog.capture([AnalyticsEvent("e:1", "sold", "u1", NOW, {})]),
        lambda sim: len(sim.events),
    ),
]
each_service = pytest.mark.parametrize("case", CASES, ids=str)


async def built(case: Case, client, sims) -> tuple[Any, Any, Any]:
    simulator = getattr(sims, case.name)
    service = case.build(client, simulator.url)
    if case.warm_up:
        # So that the access token is there and a fault meets the call itself.
        await service.get_order("none")
    return service, simulator, case.done


@each_service
async def test_a_call_that_is_taken_is_accepted_and_done_once(case, client, sims) -> None:
    service, simulator, done = await built(case, client, sims)
    assert isinstance(await case.act(service), Accepted)
    assert done(simulator) == 1


@each_service
async def test_a_service_that_cannot_be_reached_was_sent_nothing(case, client, closed_url) -> None:
    assert isinstance(await case.act(case.build(client, closed_url)), Unreachable)


@each_service
async def test_a_connection_cut_after_the_deed_is_unknown(case, client, sims) -> None:
    service, simulator, done = await built(case, client, sims)
    simulator.drop_after_send()
    assert isinstance(await case.act(service), Unknown)
    assert done(simulator) == 1


@each_service
async def test_repeating_an_unknown_call_does_nothing_twice_where_the_service_says_so(case, client, sims) -> None:
    service, simulator, done = await built(case, client, sims)
    simulator.drop_after_send()
    await case.act(service)
    assert isinstance(await case.act(service), Accepted)
    assert done(simulator) == (1 if service.repeatable else 2)


@each_service
async def test_a_service_that_falls_silent_is_unknown_within_the_time(case, sims) -> None:
    async with ServiceClient() as client:
        service, simulator, _ = await built(case, client, sims)
        for name in ("timeout_s", "_timeout_s"):
            if hasattr(service, name):
                object.__setattr__(service, name, 0.2)
        simulator.hang()
        outcome = await case.act(service)
    assert isinstance(outcome, Unknown)
    assert "0.2 s" in outcome.reason


@each_service
async def test_a_rate_limit_is_throttled_for_as_long_as_the_service_says(case, client, sims) -> None:
    service, simulator, done = await built(case, client, sims)
    simulator.rate_limit(retry_after_s=17)
    assert await case.act(service) == Throttled(17.0)
    assert done(simulator) == 0


@each_service
async def test_a_service_that_is_unavailable_may_be_asked_again(case, client, sims) -> None:
    service, simulator, _ = await built(case, client, sims)
    simulator.fail_next(status=503)
    outcome = await case.act(service)
    assert isinstance(outcome, Refused)
    assert not outcome.permanent
    assert isinstance(await case.act(service), Accepted)


@each_service
async def test_a_gateway_that_gives_up_is_unknown_unless_repeating_is_safe(case, client, sims) -> None:
    service, simulator, _ = await built(case, client, sims)
    simulator.fail_next(status=502)
    outcome = await case.act(service)
    if service.repeatable:
        assert isinstance(outcome, Refused)
        assert not outcome.permanent
    else:
        assert isinstance(outcome, Unknown)


@each_service
async def test_a_bad_request_is_refused_for_good(case, client, sims) -> None:
    service, simulator, _ = await built(case, client, sims)
    simulator.fail_next(status=404)
    outcome = await case.act(service)
    assert isinstance(outcome, Refused)
    assert outcome.permanent


@each_service
async def test_no_secret_shows_in_a_repr_or_a_reason(case, client, sims, closed_url) -> None:
    service, simulator, _ = await built(case, client, sims)
    simulator.fail_next(status=400)
    shown = [repr(service), repr(await case.act(service)), repr(await case.act(case.build(client, closed_url)))]
    assert not any(SECRET in text or "s3cret" in text for text in shown)


def response(status: int, **headers: str) -> Response:
    return Response(status, headers, b"", 1)


def test_retry_after_is_read_as_seconds_or_as_a_date_and_bounded() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "12"}) == 12
    assert retry_after({"retry-after": "-5"}) == 0
    assert retry_after({"retry-after": "nan"}) == 0
    assert retry_after({"retry-after": "999999999"}) == 24 * 3600
    assert retry_after({"retry-after": "soon"}) is None
    later = (NOW + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert retry_after({"retry-after": later}, now=NOW) == 90


def test_only_a_service_with_keys_may_repeat_after_a_server_error() -> None:
    for status in (500, 502, 504, 408):
        assert isinstance(judge_failure(response(status), repeatable=False), Unknown)
        outcome = judge_failure(response(status), repeatable=True)
        assert isinstance(outcome, Refused)
        assert not outcome.permanent


def test_a_redirect_of_an_api_is_refused_for_good() -> None:
    assert judge_failure(response(301), repeatable=True) == Refused("HTTP 301", permanent=True)


def test_nested_values_become_fields_in_brackets() -> None:
    assert flatten_form({"a": {"b": [1, {"c": True}]}, "d": None, "e": "x"}) == [
        ("a[b][0]", "1"),
        ("a[b][1][c]", "true"),
        ("e", "x"),
    ]
