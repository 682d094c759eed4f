"""Outbound webhooks and notices of the platform, from the change to the receiver."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from onceward import Engine
from onceward.messages import Templates
from onceward.messages.rendering import render
from onceward.outbox import EndpointFields, Outbox, OutboxOptions
from onceward.testing import drain, until
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import SecretBox
from onceward.work import AppRegistry
from onceward_apps.learning import app as learning
from onceward_apps.learning.app import HERE
from onceward_apps.learning.event_types import SAMPLES
from tests.learning.school import School
from tests.learning.test_instalments import cohort_with_instalments

TYPES = {
    "enrollment.created",
    "enrollment.updated",
    "enrollment.refunded",
    "cohort.started",
    "cohort.completed",
    "cohort.cancelled",
    "certificate.issued",
    "user.registered",
    "user.updated",
    "waitlist.promoted",
}


@pytest.fixture
async def customer() -> AsyncIterator[CustomerEndpoint]:
    endpoint = CustomerEndpoint()
    await endpoint.start()
    yield endpoint
    await endpoint.stop()


@pytest.mark.acceptance("registerWebhook", "dispatchOutboundWebhook", "retryFailedWebhooks")
async def test_events_reach_an_endpoint_also_after_it_failed(school: School, customer: CustomerEndpoint) -> None:
    registry = AppRegistry()
    engine = Engine(school.db, registry, event_types=learning.event_types)
    outbox = Outbox(
        school.db,
        box=SecretBox(["a key that is long enough for the tests"]),
        catalogue=learning.event_types,
        options=OutboxOptions(allow_loopback_http=True, timeout_s=2.0),
        waker=engine.waker,
    )
    outbox.install(registry)
    await engine.start()
    await outbox.save_catalogue()
    fields = EndpointFields(url=customer.hook_url, events=["enrollment.*", "user.registered"])
    await outbox.endpoints.register(school.organization, fields, actor="test")
    customer.fail_next(status=500)

    await school.enrol(await school.cohort(), await school.student("Ada"))

    async def arrived() -> bool:
        await school.db.execute("update onceward.work set sort_at = onceward.now() where queue like 'deliver%'")
        await school.db.execute("update onceward.lanes set open_until = clock_timestamp() where open_until is not null")
        await drain(engine)
        return len(customer.unique) == 2 and len(customer.received) == 3

    await until(arrived)
    bodies: list[dict[str, Any]] = [json.loads(each.body) for each in customer.received]
    assert {body["type"] for body in bodies} == {"user.registered", "enrollment.created"}
    first = [each.body for each in customer.received if json.loads(each.body)["id"] == bodies[0]["id"]]
    assert len(set(first)) == 1, "a repeat has the same body"
    created = next(body["data"] for body in bodies if body["type"] == "enrollment.created")
    assert set(created) == set(SAMPLES["enrollment.created"][1])
    await outbox.stop()
    await engine.stop()


def test_every_event_type_has_a_schema_and_a_sample() -> None:
    declared = {each.name: each for each in learning.event_types}
    assert set(declared) == set(SAMPLES) == TYPES
    for name, each in declared.items():
        assert set(each.sample) <= set(each.schema["properties"]), name
        assert each.description.endswith("."), name


@pytest.mark.acceptance("multiChannelNotification")
async def test_a_refused_payment_notifies_operators_on_every_channel(school: School) -> None:
    cohort, student = await cohort_with_instalments(school), await school.student()
    earlier = await school.start(cohort, student)
    await school.start(cohort, student, instalments=True)
    school.stripe.pay(earlier)
    await school.deliver()
    [notice] = await school.db.fetch("select * from onceward.notices")
    assert (notice["type"], notice["severity"], notice["audience"]) == ("PAYMENT_REFUSED", "error", "accounting")
    assert notice["channels"] is None, "no list of channels means mail, Slack and dashboard"
    assert notice["details"]["reason"] == "checkout_replaced"


SEED_MAILS = [
    "enrollment-welcome",
    "cohort-full-waitlist",
    "refund-confirmation",
    "booking-cancelled-no-enrollment",
    "booking-confirmed",
    "booking-rescheduled",
    "booking-cancelled",
    "session-followup",
    "intake-complete-personalized",
    "exit-survey-thank-you",
    "access-expiring-today",
    "cohort-starting-7days",
    "cohort-starting-tomorrow",
    "waitlist-spot-available",
    "cohort-cancelled-refund",
    "failed-refunds-alert",
    "daily-metrics-report",
    "cohort-confirmed",
    "waitlist-removed",
    "enrollment-refused-refund",
    "instalment-late",
    "instalment-unpaid",
]


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_mail_renders_in_both_languages_and_shows_html_as_text(language: str) -> None:
    templates = Templates([HERE / "templates"])
    for name in SEED_MAILS:
        template = templates.get(name)
        hostile = {
            key: "<b>x</b>" if isinstance(value, str) and "Name" in key else value
            for key, value in template.sample.items()
        }
        mail = render(template, hostile, locale=language)
        assert mail.locale == language, name
        assert mail.subject, name
        assert "{{" not in mail.text, name
        assert "<b>x</b>" not in mail.html, name
