"""Video rooms: who is in them, when meetings start and end, and recordings. Events may come twice and in any order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from onceward import Tx
from onceward_apps.clinic import bookings
from onceward_apps.clinic.store import appointments, rooms

ACTOR = "daily"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One session of one person in a room."""

    session_id: str
    room: str
    user_id: str | None
    user_name: str | None
    is_owner: bool
    joined_at: datetime


async def join(tx: Tx, person: Person) -> str:
    room = await rooms.seen(tx, person.room)
    is_new = await rooms.joined(
        tx,
        person.session_id,
        person.room,
        user_id=person.user_id,
        user_name=person.user_name,
        is_owner=person.is_owner,
        at=person.joined_at,
    )
    return _named(room["appointment_id"], "joined" if is_new else "known")


async def leave(tx: Tx, person: Person, *, left_at: datetime, duration_s: float | None) -> str:
    """Record that a person left, also if the event about the joining is still to come."""
    room = await rooms.seen(tx, person.room)
    await rooms.left(
        tx,
        person.session_id,
        person.room,
        user_id=person.user_id,
        user_name=person.user_name,
        is_owner=person.is_owner,
        joined_at=person.joined_at,
        left_at=left_at,
        duration_s=duration_s,
    )
    return _named(room["appointment_id"], "left")


async def start(tx: Tx, meeting_id: str, room_name: str, started_at: datetime) -> str:
    """Record the start of a meeting. A meeting whose end is known already changes nothing."""
    return await _record(tx, meeting_id, room_name, started_at, None)


async def end(tx: Tx, meeting_id: str, room_name: str, started_at: datetime, ended_at: datetime) -> str:
    """Record the end of a meeting, also before its start is reported."""
    return await _record(tx, meeting_id, room_name, started_at, ended_at)


async def _record(tx: Tx, meeting_id: str, room_name: str, started_at: datetime, ended_at: datetime | None) -> str:
    room = await rooms.seen(tx, room_name)
    meeting = await rooms.meeting(tx, meeting_id, room_name, started_at, ended_at)
    if ended_at is not None:
        await rooms.all_left(tx, room_name, ended_at)
    if room["appointment_id"] is None:
        return "unknown_room"
    if ended_at is not None and meeting["is_new"]:
        # The end came first: the appointment was held, although its start was never seen.
        await bookings.apply(tx, room["appointment_id"], "meeting_started", actor=ACTOR)
    await _follow(tx, room["appointment_id"], room_name)
    return "started" if ended_at is None else "ended"


async def _follow(tx: Tx, appointment_id: UUID, room_name: str) -> None:
    """Bring the appointment to the state that its meetings say."""
    await appointments.set_meeting(tx, appointment_id, room_name)
    trigger = "meeting_started" if await rooms.is_open(tx, room_name) else "meeting_ended"
    await bookings.apply(tx, appointment_id, trigger, actor=ACTOR)


async def record(
    tx: Tx,
    recording_id: str,
    room_name: str,
    status: str,
    *,
    s3_key: str | None = None,
    duration_s: float | None = None,
    error: str | None = None,
    started_at: datetime | None = None,
) -> str:
    """Record the state of a recording. A start takes the error that was reported before it."""
    room = await rooms.seen(tx, room_name)
    stored = await rooms.recording(
        tx, recording_id, room_name, status, s3_key=s3_key, duration_s=duration_s, error=error, started_at=started_at
    )
    if stored is None:
        return _named(room["appointment_id"], "recording_deleted")
    is_running = stored["status"] == "started"
    if is_running and started_at and await rooms.claim_error(tx, recording_id, room_name, started_at):
        return _named(room["appointment_id"], "recording_failed")
    return _named(room["appointment_id"], f"recording_{status}")


async def fail(tx: Tx, room_name: str, error: str | None, *, error_id: str, at: datetime) -> str:
    """Record an error of a recording. It names no recording: it belongs to the one that runs in the room."""
    room = await rooms.seen(tx, room_name)
    running = await rooms.unfinished_recording(tx, room_name)
    if running is None:
        await rooms.keep_error(tx, error_id, room_name, error, at)
    else:
        await rooms.recording(tx, running, room_name, "failed", error=error)
    return _named(room["appointment_id"], "recording_failed")


def _named(appointment_id: UUID | None, effect: str) -> str:
    """Nobody booked the room: what happens in it is stored, and the result says so."""
    return effect if appointment_id is not None else "unknown_room"
