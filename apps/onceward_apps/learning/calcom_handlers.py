"""Handlers of Cal.com's webhooks: bookings, meetings that ended, no-shows.

Cal.com sends once and never again, so the source stores each event first (`ack`) and a worker handles it. A source
without an organization serves all: the booking or the cohort in the metadata decides.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from onceward import Event, Tx
from onceward_apps.learning import bookings
from onceward_apps.learning.app import app
from onceward_apps.learning.metrics import BOOKINGS, count_result
from onceward_apps.learning.model import as_uuid

Result = dict[str, Any]


class Attendee(BaseModel):
    email: str = ""
    noShow: bool | None = None


class BookingPayload(BaseModel):
    """The fields of a booking that we use. Flat events (`MEETING_ENDED`) have the same names."""

    uid: str = Field(min_length=1, max_length=255)
    startTime: datetime
    endTime: datetime
    status: str | None = None
    attendees: list[Attendee] = Field(default_factory=list[Attendee])
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    rescheduleUid: str | None = None
    cancellationReason: str | None = None
    calendarLink: str | None = None
    rescheduleLink: str | None = None
    recordingUrl: str | None = None
    duration: int | None = None

    @field_validator("metadata", mode="before")
    @classmethod
    def _without_metadata(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("startTime", "endTime")
    @classmethod
    def _with_zone(cls, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValueError("the time has no zone")
        return value

    @property
    def cohort_id(self) -> UUID | None:
        value = self.metadata.get("cohortId")
        return as_uuid(value) if isinstance(value, str) else None

    def booking(self) -> bookings.Booking:
        video = self.metadata.get("videoCallUrl")
        return bookings.Booking(
            uid=self.uid,
            starts_at=self.startTime,
            ends_at=self.endTime,
            email=self.attendees[0].email if self.attendees else None,
            cohort_id=self.cohort_id,
            status=(self.status or "ACCEPTED").upper(),
            calendar_link=self.calendarLink,
            reschedule_link=self.rescheduleLink,
            url=video if isinstance(video, str) else None,
            is_ours="enrollmentId" in self.metadata,
        )


class NoShow(BaseModel):
    bookingUid: str = Field(min_length=1, max_length=255)
    attendees: list[Attendee] = Field(default_factory=list[Attendee])


class Cancellation(BaseModel):
    uid: str = Field(min_length=1, max_length=255)
    cancellationReason: str | None = None


@app.on("calcom", "BOOKING_CREATED", ordering=True)
async def booking_created(event: Event[BookingPayload], tx: Tx) -> Result:
    if not await _act(tx, event.data.cohort_id, event.data.uid):
        return count_result(tx, BOOKINGS, {"status": "COHORT_NOT_FOUND"})
    result = await bookings.created(tx, event.data.booking(), received_at=event.received_at)
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_REQUESTED", ordering=True)
async def booking_requested(event: Event[BookingPayload], tx: Tx) -> Result:
    """Record a booking that the host must confirm. A reschedule of such a booking comes as a request, too."""
    data = event.data
    if not await _act(tx, data.cohort_id, data.uid, data.rescheduleUid):
        return count_result(tx, BOOKINGS, {"status": "COHORT_NOT_FOUND"})
    if data.rescheduleUid is not None:
        old_uid = data.rescheduleUid
        result = await bookings.rescheduled(tx, data.booking(), old_uid=old_uid, received_at=event.received_at)
        return count_result(tx, BOOKINGS, result)
    result = await bookings.created(tx, data.booking(), received_at=event.received_at)
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_CONFIRMED", ordering=True)
async def booking_confirmed(event: Event[BookingPayload], tx: Tx) -> Result:
    if not await _act(tx, event.data.cohort_id, event.data.uid):
        return count_result(tx, BOOKINGS, {"status": "COHORT_NOT_FOUND"})
    result = await bookings.confirmed(tx, event.data.booking(), received_at=event.received_at)
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_RESCHEDULED", ordering=True)
async def booking_rescheduled(event: Event[BookingPayload], tx: Tx) -> Result:
    data = event.data
    if not await _act(tx, data.cohort_id, data.uid, data.rescheduleUid):
        return count_result(tx, BOOKINGS, {"status": "ENROLLMENT_NOT_FOUND"})
    result = await bookings.rescheduled(tx, data.booking(), old_uid=data.rescheduleUid, received_at=event.received_at)
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_CANCELLED", ordering=True)
async def booking_cancelled(event: Event[Cancellation], tx: Tx) -> Result:
    if not await _act(tx, None, event.data.uid):
        return count_result(tx, BOOKINGS, {"status": "ENROLLMENT_NOT_FOUND"})
    result = await bookings.cancelled(tx, event.data.uid, reason=event.data.cancellationReason)
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_REJECTED", ordering=True)
async def booking_rejected(event: Event[Cancellation], tx: Tx) -> Result:
    if not await _act(tx, None, event.data.uid):
        return count_result(tx, BOOKINGS, {"status": "ENROLLMENT_NOT_FOUND"})
    result = await bookings.cancelled(tx, event.data.uid, reason=event.data.cancellationReason or "rejected")
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "MEETING_ENDED", ordering=True)
async def meeting_ended(event: Event[BookingPayload], tx: Tx) -> Result:
    data = event.data
    if not await _act(tx, data.cohort_id, data.uid):
        return count_result(tx, BOOKINGS, {"status": "ENROLLMENT_NOT_FOUND"})
    result = await bookings.observe_meeting_end(
        tx,
        data.uid,
        cause=event.event_id,
        duration_s=None if data.duration is None else data.duration * 60,
        recording_url=data.recordingUrl,
    )
    return count_result(tx, BOOKINGS, result)


@app.on("calcom", "BOOKING_NO_SHOW_UPDATED", ordering=True)
async def no_show_updated(event: Event[NoShow], tx: Tx) -> Result:
    if not await _act(tx, None, event.data.bookingUid):
        return count_result(tx, BOOKINGS, {"status": "ENROLLMENT_NOT_FOUND"})
    absent = {each.email: each.noShow for each in event.data.attendees if each.noShow is not None}
    result = await bookings.observe_no_show(tx, event.data.bookingUid, absent, cause=event.event_id)
    return count_result(tx, BOOKINGS, result)


async def _act(tx: Tx, cohort_id: UUID | None, *uids: str | None) -> bool:
    """Act for the organization of the source, else of the booking or the cohort. Returns False if there is none."""
    if tx.organization is not None:
        return True
    asked = [("booking", uid) for uid in uids if uid] + ([("cohort", str(cohort_id))] if cohort_id else [])
    for kind, value in asked:
        organization = await tx.fetchval("select learning.organization_of($1, $2)", kind, value)
        if organization is not None:
            await tx.act_for(organization)
            return True
    return False
