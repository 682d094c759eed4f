"""Cal.com, HubSpot and the analytics sinks: read-backs, batches that fail in part, limits kept before sending."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from onceward.http import Response
from onceward.integrations.calcom import Attendee, CalCom
from onceward.integrations.ga4 import Ga4, Ga4Event
from onceward.integrations.hubspot import CrmRecord, HubSpot
from onceward.integrations.mixpanel import Mixpanel
from onceward.integrations.posthog import PostHog
from onceward.integrations.posthog.client import event_uuid
from onceward.integrations.segment import Segment, SegmentCall
from onceward.integrations.segment.client import judge as judge_segment
from onceward.integrations.segment.client import message_id
from onceward.services.analytics import AnalyticsEvent
from onceward.services.outcome import Absent, Accepted, Refused, Unknown

NOW = datetime.now(UTC)
ADA = Attendee("Ada", "ada@example.com", time_zone="Europe/Vienna")


@pytest.fixture
def cal(client, sims) -> CalCom:
    return CalCom(client, "cal_live_1", sims.calcom.url)


async def test_an_unclear_booking_is_found_by_its_key(cal, sims) -> None:
    sims.calcom.drop_after_send()
    start = datetime(2026, 5, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    assert isinstance(await cal.create_booking(key="job:1", event_type_id=7, start=start, attendee=ADA), Unknown)
    found = await cal.find_booking(key="job:1", attendee_email=ADA.email, event_type_id=7)
    assert isinstance(found, Accepted)
    assert found.detail["start"] == "2026-05-01T08:00:00.000Z"
    assert await cal.find_booking(key="job:2", attendee_email=ADA.email, event_type_id=7) == Absent()


async def test_cancelling_twice_is_cancelling_once(cal, sims) -> None:
    made = await cal.create_booking(key="job:1", event_type_id=7, start=NOW, attendee=ADA)
    assert isinstance(await cal.cancel_booking(made.reference, reason="refunded"), Accepted)
    assert isinstance(await cal.cancel_booking(made.reference, reason="refunded"), Accepted)
    missing = await cal.cancel_booking("nope", reason="refunded")
    assert isinstance(missing, Refused)
    assert missing.permanent


async def test_a_moved_booking_has_a_new_uid(cal, sims) -> None:
    made = await cal.create_booking(key="job:1", event_type_id=7, start=NOW, attendee=ADA)
    moved = await cal.reschedule_booking(made.reference, start=NOW + timedelta(days=1), reason="ill")
    assert isinstance(moved, Accepted)
    assert moved.reference != made.reference
    assert (await cal.get_booking(made.reference)).detail["status"] == "cancelled"


async def test_a_start_without_time_zone_is_an_error(cal) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        await cal.create_booking(key="k", event_type_id=7, start=datetime(2026, 5, 1), attendee=ADA)


async def test_a_batch_that_fails_in_part_is_not_a_success_and_names_what_failed(client, sims) -> None:
    hubspot = HubSpot(client, "pat-1", sims.hubspot.url)
    sims.hubspot.invalid.add("bad@example.com")
    records = [CrmRecord(f"{name}@example.com", {"firstname": name}) for name in ("a", "bad", "c")]
    outcome = await hubspot.upsert("contacts", records)
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert outcome.detail["failed"] == [1]
    assert len(outcome.detail["upserted"]) == 2
    assert "bad@example.com" not in repr(outcome)
    assert isinstance(await hubspot.upsert("contacts", [records[0], records[2]]), Accepted)
    assert len(sims.hubspot.records["contacts"]) == 2


async def test_a_batch_over_hubspots_limit_is_not_sent(client, sims) -> None:
    hubspot = HubSpot(client, "pat-1", sims.hubspot.url)
    assert isinstance(await hubspot.upsert("contacts", [CrmRecord("a", {})] * 101), Refused)
    assert isinstance(await hubspot.upsert("contacts", []), Accepted)
    assert sims.hubspot.received == []


@pytest.mark.parametrize(
    ("events", "more"),
    [
        ([], {}),
        ([Ga4Event("a", {})] * 26, {}),
        ([Ga4Event("a", {f"p{n}": 1 for n in range(26)})], {}),
        ([Ga4Event("a" * 41, {})], {}),
        ([Ga4Event("1a", {})], {}),
        ([Ga4Event("a b", {})], {}),
        ([Ga4Event("a", {"p": "x" * 101})], {}),
        ([Ga4Event("a", {})], {"at": NOW - timedelta(hours=73)}),
        ([Ga4Event("a", {})], {"user_properties": {f"p{n}": 1 for n in range(26)}}),
        ([Ga4Event("a", {f"p{n}": list(range(300)) for n in range(25)})] * 25, {}),
    ],
)
async def test_what_google_would_drop_in_silence_is_refused_here(client, sims, events, more) -> None:
    outcome = await Ga4(client, "G-1", "secret", sims.ga4.url).send(events, client_id="1.2", **more)
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert sims.ga4.received == []


async def test_mixpanel_counts_a_key_once_and_names_what_it_refused(client, sims) -> None:
    mixpanel = Mixpanel(client, "token", base_url=sims.mixpanel.url)
    event = AnalyticsEvent("e:1", "Sold", "u1", NOW, {"amount": 5})
    assert isinstance(await mixpanel.import_events([event, event]), Accepted)
    assert len(sims.mixpanel.events) == 1
    refused = await mixpanel.import_events([event, AnalyticsEvent("e:2", "", "u1", NOW, {})])
    assert isinstance(refused, Refused)
    assert refused.detail["failed"] == [1]
    many = await mixpanel.import_events([event] * 2001)
    wide = await mixpanel.import_events([AnalyticsEvent("e", "n", "u", NOW, {str(n): n for n in range(256)})])
    assert isinstance(many, Refused)
    assert isinstance(wide, Refused)


@pytest.mark.parametrize(
    "calls",
    [
        [SegmentCall("k", "track", NOW, user_id="u", event="e")] * 2501,
        [SegmentCall("k", "track", NOW, user_id="u", event="e", values={"a": "x" * 32_000})],
        [SegmentCall("k", "track", NOW, user_id="u", event="e", values={"a": "x" * 30_000})] * 17,
        [SegmentCall("k", "track", NOW, event="e")],
        [SegmentCall("k", "track", NOW, user_id="u")],
    ],
)
async def test_what_segment_would_drop_behind_a_200_is_refused_here(client, sims, calls) -> None:
    outcome = await Segment(client, "write-key", sims.segment.url).send(calls)
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert sims.segment.received == []


def test_segment_without_success_in_its_answer_is_unknown_and_long_keys_are_hashed() -> None:
    assert isinstance(judge_segment(Response(200, {}, b"{}", 1)), Unknown)
    assert message_id("k") == "k"
    assert len(message_id("k" * 100)) == 64


async def test_posthog_over_its_quota_is_not_taken_for_success(client, sims) -> None:
    posthog = PostHog(client, "phc_1", sims.posthog.url)
    sims.posthog.quota_is_used_up = True
    outcome = await posthog.capture([AnalyticsEvent("e:1", "sold", "u1", NOW, {})])
    assert isinstance(outcome, Refused)
    assert not outcome.permanent
    assert isinstance(await posthog.capture([AnalyticsEvent("e:1", "", "u1", NOW, {})]), Refused)
    assert event_uuid("e:1") == event_uuid("e:1")
