"""Daily: rooms by name, tokens, recordings that a lost webhook is repaired from, and webhooks that Daily switches off."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from onceward.integrations.daily import WEBHOOK_FAILED, Daily
from onceward.services.outcome import Absent, Accepted, Refused, Throttled
from onceward.testing.simulators import CustomerEndpoint

SECRET = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def daily(client, sims) -> Daily:
    return Daily(client, "daily-key", sims.daily.url)


async def test_creating_a_room_again_finds_the_one_that_exists(daily, sims) -> None:
    sims.daily.drop_after_send()
    await daily.create_room("visit-7", expires=SOON, recording="cloud")
    again = await daily.create_room("visit-7", expires=SOON, recording="cloud")
    assert isinstance(again, Accepted)
    assert (again.reference, again.detail["privacy"]) == ("visit-7", "private")
    assert again.detail["config"] == {"exp": int(SOON.timestamp()), "enable_recording": "cloud"}
    assert len(sims.daily.rooms) == 1


async def test_deleting_a_room_twice_is_deleting_it_once(daily) -> None:
    await daily.create_room("visit-7")
    assert isinstance(await daily.delete_room("visit-7"), Accepted)
    assert isinstance(await daily.delete_room("visit-7"), Accepted)
    assert await daily.get_room("visit-7") == Absent()


async def test_a_token_names_the_room_the_person_and_its_end(daily, sims) -> None:
    made = await daily.create_token("visit-7", expires=SOON, user_id="p1", user_name="Ana", is_owner=True)
    assert sims.daily.tokens[made.detail["token"]] == {
        "room_name": "visit-7",
        "exp": int(SOON.timestamp()),
        "user_id": "p1",
        "user_name": "Ana",
        "is_owner": True,
    }
    with pytest.raises(ValueError, match="no time zone"):
        await daily.create_token("visit-7", expires=datetime(2026, 1, 1))


async def test_all_recordings_of_a_room_are_listed_over_several_pages(daily, sims) -> None:
    ids = [sims.daily.start_recording("visit-7") for _ in range(101)]
    sims.daily.start_recording("another")
    listed = await daily.list_recordings(room="visit-7")
    assert [each["id"] for each in listed.detail["recordings"]] == ids[::-1]


async def test_only_a_finished_recording_has_a_link(daily, sims) -> None:
    recording = sims.daily.start_recording("visit-7")
    assert isinstance(await daily.recording_link(recording), Refused)
    sims.daily.finish_recording(recording, duration_s=9)
    link = await daily.recording_link(recording, valid_for_s=60)
    assert recording in link.detail["download_link"]
    assert (await daily.get_recording(recording)).detail["duration"] == 9
    assert isinstance(await daily.delete_recording(recording), Accepted)
    assert isinstance(await daily.delete_recording(recording), Accepted)


async def test_limits_and_wrong_keys(client, daily, sims) -> None:
    sims.daily.rate_limit(2, retry_after_s=None)
    assert await daily.create_room("a") == Throttled(5.0)
    assert await daily.list_recordings() == Throttled(15.0)
    refused = await Daily(client, "key_invalid", sims.daily.url).create_room("a")
    assert isinstance(refused, Refused)
    assert refused.account
    assert not refused.permanent


async def test_a_webhook_that_fails_three_times_is_switched_off_and_can_be_switched_on(daily, sims) -> None:
    async with CustomerEndpoint() as receiver:
        made = await daily.create_webhook(receiver.hook_url, event_types=["participant.joined"], hmac=SECRET)
        assert isinstance(made, Accepted)
        assert receiver.received[0].body == b'{"test":"test"}'
        receiver.fail_next(3)
        for _ in range(3):
            sims.daily.join("visit-7")
        await until(lambda: sims.daily.registered[made.reference]["state"] == WEBHOOK_FAILED)
        listed = await daily.list_webhooks()
        assert [(each["state"], each["failedCount"]) for each in listed.detail["webhooks"]] == [("FAILED", 3)]
        sims.daily.join("visit-7")
        assert len(receiver.received) == 4, "Daily sends nothing to a failed webhook"
        await daily.reactivate_webhook(made.reference, url=receiver.hook_url)
        sims.daily.join("visit-7")
        await sims.daily.webhooks.settle()
        assert len(receiver.received) == 6
    refused = await daily.create_webhook("http://127.0.0.1:9/", event_types=[])
    assert isinstance(refused, Refused)
    assert refused.permanent


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)
