"""Video rooms: people, meetings and recordings, twice and in any order; rooms that nobody booked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward_apps.clinic import bookings
from tests.clinic.practice import ACTOR, Practice

START = 1_794_830_400.0


@pytest.fixture
async def practice(practice: Practice) -> Practice:
    await practice.sources()
    return practice


async def booked(practice: Practice) -> tuple[UUID, str]:
    appointment = await practice.appointment(room=True)
    await practice.drain()
    return appointment, (await practice.row(appointment))["room_name"]


def person(room: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {"session_id": session, "room": room, "joined_at": START, "user_name": "Ann", "owner": False, **more}


async def test_a_room_is_created_under_our_name_and_found_again(practice: Practice) -> None:
    appointment, room = await booked(practice)
    assert (await practice.row(appointment))["room_url"] == f"https://simulated.daily.co/{room}"
    async with practice.acting() as tx:
        assert await bookings.request_room(tx, appointment) == room
    await practice.drain()
    assert list(practice.daily.rooms) == [room]
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await practice.drain()
    assert practice.daily.rooms == {}


async def test_a_meeting_moves_the_appointment(practice: Practice) -> None:
    appointment, room = await booked(practice)
    meeting = {"meeting_id": "m1", "start_ts": START, "room": room}
    assert await practice.video("meeting.started", meeting) == "started"
    assert (await practice.status(appointment))[0] == "in_progress"
    assert await practice.video("participant.joined", person(room)) == "joined"
    assert await practice.video("meeting.ended", {**meeting, "end_ts": START + 900}) == "ended"
    row = await practice.row(appointment)
    assert row["status"] == "completed"
    assert (row["meeting_ended_at"] - row["meeting_started_at"]).total_seconds() == 900
    left = await practice.db.fetchrow("select * from clinic.room_participants")
    assert left["duration_s"] == 900  # the webhook of the leaving was lost


async def test_an_end_before_its_start_completes_the_appointment(practice: Practice) -> None:
    appointment, room = await booked(practice)
    meeting = {"meeting_id": "m1", "start_ts": START, "room": room}
    await practice.video("meeting.ended", {**meeting, "end_ts": START + 900})
    assert (await practice.status(appointment))[0] == "completed"
    await practice.video("meeting.started", meeting)
    assert (await practice.status(appointment))[0] == "completed"
    await practice.video("meeting.started", {**meeting, "meeting_id": "m2", "start_ts": START + 1000})
    assert (await practice.status(appointment))[0] == "in_progress"  # they came back


async def test_duplicate_joins_and_a_leave_before_its_join_are_one_person(practice: Practice) -> None:
    _, room = await booked(practice)
    assert await practice.video("participant.joined", person(room)) == "joined"
    assert await practice.video("participant.joined", person(room)) == "known"
    await practice.video("participant.left", {**person(room, "s2"), "duration": 60.5})
    await practice.video("participant.joined", person(room, "s2"))
    rows = await practice.db.fetch("select session_id, left_at, duration_s from clinic.room_participants order by 1")
    assert [(row["session_id"], row["left_at"] is None, row["duration_s"]) for row in rows] == [
        ("s1", True, None),
        ("s2", False, 60.5),
    ]


async def test_a_recording_may_come_before_its_meeting_and_never_goes_back(practice: Practice) -> None:
    _, room = await booked(practice)
    ready = {"recording_id": "r1", "room_name": room, "duration": 900, "s3_key": "k/1", "start_ts": START}
    assert await practice.video("recording.ready-to-download", ready) == "recording_ready"
    assert await practice.video("recording.started", {"recording_id": "r1", "room_name": room}) == "recording_started"
    row = await practice.db.fetchrow("select * from clinic.recordings")
    assert (row["status"], row["s3_key"], row["duration_s"]) == ("ready", "k/1", 900)


async def test_an_error_belongs_to_the_recording_that_runs(practice: Practice) -> None:
    _, room = await booked(practice)
    await practice.video("recording.started", {"recording_id": "r1", "room_name": room, "start_ts": START})
    failed = {"error_msg": "disk full", "instance_id": "i1", "room_name": room}
    assert await practice.video("recording.error", failed) == "recording_failed"
    assert await practice.video("recording.error", {**failed, "instance_id": "i2"}) == "recording_failed"
    rows = await practice.db.fetch("select recording_id, status, error from clinic.recordings order by recording_id")
    assert [tuple(row) for row in rows] == [("i2", "failed", "disk full"), ("r1", "failed", "disk full")]


async def test_an_error_before_its_recording_waits_for_the_start(practice: Practice) -> None:
    _, room = await booked(practice)
    failed = {"error_msg": "disk full", "instance_id": "i1", "room_name": room, "timestamp": START + 60}
    assert await practice.video("recording.error", failed) == "recording_failed"
    later = {"recording_id": "r2", "room_name": room, "start_ts": START + 120}
    assert await practice.video("recording.started", later) == "recording_started"  # the error is older than this one
    first = {"recording_id": "r1", "room_name": room, "start_ts": START}
    assert await practice.video("recording.started", first) == "recording_failed"
    rows = await practice.db.fetch("select recording_id, status, error from clinic.recordings order by recording_id")
    assert [tuple(row) for row in rows] == [("r1", "failed", "disk full"), ("r2", "started", None)]


async def test_a_room_that_nobody_booked_is_stored_and_the_result_says_so(practice: Practice) -> None:
    assert await practice.video("participant.joined", person("stranger")) == "unknown_room"
    assert await practice.video("meeting.started", {"meeting_id": "m", "start_ts": START, "room": "stranger"}) == (
        "unknown_room"
    )
    assert await practice.db.fetchval("select count(*) from clinic.room_participants") == 1
    assert await practice.db.fetchval("select appointment_id is null from clinic.rooms")


async def test_lost_recordings_are_found_and_a_failed_webhook_alerts(practice: Practice) -> None:
    _, room = await booked(practice)
    meeting = {"meeting_id": "m1", "start_ts": practice.clock.at.timestamp() - 3000, "room": room}
    await practice.video("meeting.ended", {**meeting, "end_ts": practice.clock.at.timestamp() - 1200})
    recording = practice.daily.start_recording(room)
    practice.daily.finish_recording(recording, duration_s=77)
    await practice.run("clinic-lost-callbacks")
    await practice.drain()
    row = await practice.db.fetchrow("select * from clinic.recordings")
    assert (row["recording_id"], row["status"], row["duration_s"]) == (recording, "ready", 77)
    hook = practice.daily.send_webhooks_to("http://127.0.0.1:9/", secret="c2VjcmV0")
    practice.daily.registered[hook]["state"] = "FAILED"
    await practice.run("clinic-daily-webhooks")
    await practice.drain()
    assert await practice.db.fetchval("select count(*) from onceward.notices where type like 'CLINIC_DAILY%'") == 1


async def test_a_lost_delivery_report_is_fetched_from_twilio(practice: Practice) -> None:
    await practice.appointment(await practice.patient(phone="+6591234567"), hours=24.5)
    await practice.clock.advance(hours=1)
    await practice.run("clinic-reminders")
    await practice.drain()
    [sent] = practice.twilio.messages
    practice.twilio.report = False
    sent["status"] = "delivered"
    await practice.clock.advance(minutes=31)
    await practice.run("clinic-lost-callbacks")
    await practice.drain()
    assert [row["state"] for row in await practice.messages()] == ["delivered"]
