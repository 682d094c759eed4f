"""Handlers of Daily's webhooks (source `daily`): rooms, people and recordings. Events of one room come one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward_apps.clinic import meetings, metrics
from onceward_apps.clinic.app import app
from onceward_apps.clinic.store import people

SOURCE = "daily"
LATEST_S = 4_102_444_800
"""The first second of 2100: later times are not times of ours."""
NAME_CHARACTERS = 255
TEXT_CHARACTERS = 1024
"""What is stored of longer names and texts."""


class Room(BaseModel):
    """Daily names the room `room` in some events and `room_name` in others."""

    room: str | None = None
    room_name: str | None = None

    @property
    def name(self) -> str:
        return (self.room or self.room_name or "")[:NAME_CHARACTERS]


class Participant(Room):
    session_id: str = Field(min_length=1, max_length=255)
    joined_at: float = Field(ge=0, le=LATEST_S)
    user_id: str | None = None
    user_name: str | None = None
    owner: bool = False
    duration: float | None = Field(None, ge=0, le=LATEST_S)


class Meeting(Room):
    meeting_id: str = Field(min_length=1, max_length=255)
    start_ts: float = Field(ge=0, le=LATEST_S)
    end_ts: float | None = Field(None, ge=0, le=LATEST_S)


class Recording(Room):
    recording_id: str | None = Field(None, max_length=255)
    start_ts: float | None = Field(None, ge=0, le=LATEST_S)
    duration: float | None = Field(None, ge=0, le=LATEST_S)
    s3_key: str | None = None
    error_msg: str | None = None
    timestamp: float | None = Field(None, ge=0, le=LATEST_S)
    instance_id: str | None = None


@app.on(SOURCE, "participant.joined", ordering=True)
async def participant_joined(event: Event[Participant], tx: Tx) -> dict[str, Any]:
    if not await _act_for_clinic(tx, event.data.name):
        return _effect("unknown_room")
    return _effect(await meetings.join(tx, _person(event.data)))


@app.on(SOURCE, "participant.left", ordering=True)
async def participant_left(event: Event[Participant], tx: Tx) -> dict[str, Any]:
    data = event.data
    if not await _act_for_clinic(tx, data.name):
        return _effect("unknown_room")
    left_at = _moment(data.joined_at + data.duration) if data.duration is not None else event.received_at
    return _effect(await meetings.leave(tx, _person(data), left_at=left_at, duration_s=data.duration))


@app.on(SOURCE, "meeting.started", ordering=True)
async def meeting_started(event: Event[Meeting], tx: Tx) -> dict[str, Any]:
    data = event.data
    if not await _act_for_clinic(tx, data.name):
        return _effect("unknown_room")
    return _effect(await meetings.start(tx, data.meeting_id, data.name, _moment(data.start_ts)))


@app.on(SOURCE, "meeting.ended", ordering=True)
async def meeting_ended(event: Event[Meeting], tx: Tx) -> dict[str, Any]:
    data = event.data
    if not await _act_for_clinic(tx, data.name):
        return _effect("unknown_room")
    ended_at = event.received_at if data.end_ts is None else _moment(data.end_ts)
    return _effect(await meetings.end(tx, data.meeting_id, data.name, _moment(data.start_ts), ended_at))


@app.on(SOURCE, "recording.started", ordering=True)
async def recording_started(event: Event[Recording], tx: Tx) -> dict[str, Any]:
    return await _recording(event, tx, "started")


@app.on(SOURCE, "recording.ready-to-download", ordering=True)
async def recording_ready(event: Event[Recording], tx: Tx) -> dict[str, Any]:
    return await _recording(event, tx, "ready")


@app.on(SOURCE, "recording.error", ordering=True)
async def recording_failed(event: Event[Recording], tx: Tx) -> dict[str, Any]:
    data = event.data
    if data.recording_id is not None:
        return await _recording(event, tx, "failed")
    if not await _act_for_clinic(tx, data.name):
        return _effect("unknown_room")
    at = event.received_at if data.timestamp is None else _moment(data.timestamp)
    error_id = _cut(data.instance_id, NAME_CHARACTERS) or event.event_id
    return _effect(await meetings.fail(tx, data.name, _cut(data.error_msg, TEXT_CHARACTERS), error_id=error_id, at=at))


async def _recording(event: Event[Recording], tx: Tx, status: str) -> dict[str, Any]:
    data = event.data
    if not await _act_for_clinic(tx, data.name):
        return _effect("unknown_room")
    effect = await meetings.record(
        tx,
        data.recording_id or event.event_id,
        data.name,
        status,
        s3_key=_cut(data.s3_key, TEXT_CHARACTERS),
        duration_s=data.duration,
        error=_cut(data.error_msg, TEXT_CHARACTERS),
        started_at=None if data.start_ts is None else _moment(data.start_ts),
    )
    return _effect(effect)


def _person(data: Participant) -> meetings.Person:
    return meetings.Person(
        session_id=data.session_id,
        room=data.name,
        user_id=_cut(data.user_id, NAME_CHARACTERS),
        user_name=_cut(data.user_name, NAME_CHARACTERS),
        is_owner=data.owner,
        joined_at=_moment(data.joined_at),
    )


async def _act_for_clinic(tx: Tx, room: str) -> bool:
    """Act for the clinic of the room. A room that no clinic booked belongs to nobody: only the event is kept."""
    if tx.organization is not None:
        return bool(room)
    clinic = await people.organization_of(tx, "room", room)
    if clinic is None:
        return False
    await tx.act_for(clinic)
    return True


def _cut(text: str | None, characters: int) -> str | None:
    return None if text is None else text[:characters]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _effect(effect: str) -> dict[str, Any]:
    metrics.ROOMS.labels(effect).inc()
    return {"effect": effect}
