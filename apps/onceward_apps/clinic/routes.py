"""HTTP under `/api/v1/clinic`: the clinic, patients, appointments, payments, rooms, and the inbox of messages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import BaseModel, Field

from onceward import Engine, Tx
from onceward.messages import list_senders
from onceward.web import ANYTHING, Identity, Problem, engine_of, exposed, request_transaction, require
from onceward_apps.clinic import bookings, correspondence, payments
from onceward_apps.clinic.app import app
from onceward_apps.clinic.errors import ClinicError, NotFound
from onceward_apps.clinic.store import conversations, people, views

router = APIRouter(prefix="/api/v1/clinic", tags=["clinic"])

EngineHere = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Owner = Annotated[Identity, Depends(require("owner"))]
Locale = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]


class ClinicIn(BaseModel):
    name: str = Field(min_length=1, max_length=100)
    timezone: str = Field("UTC", max_length=60)
    locale: Locale = "en"
    country_code: str | None = Field(None, pattern=r"^[1-9][0-9]{0,2}$")


class PatientIn(BaseModel):
    """Fields that are missing keep their value."""

    name: str = Field(min_length=1, max_length=200)
    reference: str | None = Field(None, min_length=1, max_length=100)
    phone: str | None = Field(None, min_length=1, max_length=60)
    whatsapp: str | None = Field(None, min_length=1, max_length=60)
    email: str | None = Field(None, max_length=254)
    locale: Locale | None = None


class AppointmentIn(BaseModel):
    """The same `id` twice is one appointment. `price` is in minor units. A `doctor` has one appointment at a time."""

    id: UUID | None = None
    patient_id: UUID
    starts_at: datetime
    duration_minutes: int = Field(30, ge=5, le=1440)
    price: int = Field(0, ge=0, le=100_000_000)
    currency: str = Field("USD", pattern=r"^[A-Za-z]{3}$")
    doctor: str | None = Field(None, min_length=1, max_length=100)


class MoveIn(BaseModel):
    starts_at: datetime
    duration_minutes: int | None = Field(None, ge=5, le=1440)


class CancelIn(BaseModel):
    by: Literal["clinic", "patient"] = "clinic"
    reason: str = Field("", max_length=500)


class RefundIn(BaseModel):
    """Without an amount, everything that is left is refunded."""

    amount: int | None = Field(None, gt=0, lt=2**63)
    reason: str = Field(min_length=1, max_length=500)
    payment_id: UUID | None = None


class AnswerIn(BaseModel):
    """Without a text the message is closed unanswered."""

    text: str | None = Field(None, min_length=1, max_length=1600)


def acting(engine: Engine, who: Identity) -> AbstractAsyncContextManager[Tx]:
    """Open a transaction for the caller's clinic."""
    needed = "this key belongs to no organization: use the key of a clinic"
    return request_transaction(engine, who.organization, refusals=ClinicError, problem=problem, needed=needed)


def problem(error: ClinicError) -> Problem:
    return Problem(error.status, str(error), kind=type(error).__name__)


@router.put("")
@exposed("nothing")
async def save_clinic(engine: EngineHere, who: Owner, clinic: ClinicIn) -> dict[str, Any]:
    """Set the name, the time zone and the country code of the clinic."""
    async with acting(engine, who) as tx:
        return dict(await bookings.save_clinic(tx, **clinic.model_dump(), actor=who.actor))


@router.get("")
async def show_clinic(engine: EngineHere, who: Viewer) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        row = await people.clinic(tx)
        return {
            "clinic": None if row is None else dict(row),
            "senders": [asdict(each) for each in await list_senders(tx, tx.organization)],
        }


# -- patients ----------------------------------------------------------------------------------------------------------


@router.post("/patients", status_code=201)
@exposed("nothing")
async def add_patient(engine: EngineHere, who: Operator, patient: PatientIn) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        data = bookings.PatientData(**patient.model_dump())
        return dict(await bookings.save_patient(tx, None, data, actor=who.actor))


@router.put("/patients/{patient_id}")
@exposed("nothing")
async def save_patient(engine: EngineHere, who: Operator, patient_id: UUID, patient: PatientIn) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        await bookings.patient(tx, patient_id)
        data = bookings.PatientData(**patient.model_dump())
        return dict(await bookings.save_patient(tx, patient_id, data, actor=who.actor))


@router.get("/patients")
async def list_patients(
    engine: EngineHere,
    who: Viewer,
    search: str | None = Query(None, max_length=200),
    limit: int = Query(50, ge=1, le=500),
) -> list[dict[str, Any]]:
    async with acting(engine, who) as tx:
        return [dict(row) for row in await people.patients(tx, search=search, limit=limit)]


@router.get("/patients/{patient_id}")
async def show_patient(engine: EngineHere, who: Viewer, patient_id: UUID) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        row = await bookings.patient(tx, patient_id)
        return {**dict(row), "appointments": await views.appointments_of(tx, tx.organization, patient_id)}


# -- appointments ------------------------------------------------------------------------------------------------------


@router.post("/appointments", status_code=201)
@exposed("mail", "call")
async def add_appointment(engine: EngineHere, who: Operator, new: AppointmentIn) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        row = await bookings.create(
            tx,
            new.patient_id,
            new.starts_at,
            duration_minutes=new.duration_minutes,
            price=new.price,
            currency=new.currency,
            doctor=new.doctor,
            id=new.id,
            actor=who.actor,
        )
        return dict(row)


@router.get("/appointments")
async def list_appointments(engine: EngineHere, who: Viewer, on: date | None = None) -> dict[str, Any]:
    """List the appointments of a day in the clinic's time zone; today by default."""
    async with acting(engine, who) as tx:
        chosen = on or await views.today(tx, tx.organization)
        return {"on": chosen, "appointments": await views.day(tx, tx.organization, chosen)}


@router.get("/appointments/{appointment_id}")
async def show_appointment(engine: EngineHere, who: Viewer, appointment_id: UUID) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        row = await views.appointment(tx, tx.organization, appointment_id)
        if row is None:
            raise NotFound(f"there is no appointment {appointment_id}")
        return row


@router.post("/appointments/{appointment_id}/reschedule")
@exposed("mail", "call")
async def reschedule(engine: EngineHere, who: Operator, appointment_id: UUID, move: MoveIn) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        row = await bookings.reschedule(
            tx, appointment_id, move.starts_at, duration_minutes=move.duration_minutes, actor=who.actor
        )
        return dict(row)


@router.post("/appointments/{appointment_id}/confirm")
@exposed("mail", "call")
async def confirm(engine: EngineHere, who: Operator, appointment_id: UUID) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        return dict(await bookings.demand(tx, appointment_id, "confirm", actor=who.actor))


@router.post("/appointments/{appointment_id}/no-show")
@exposed("mail", "call")
async def no_show(engine: EngineHere, who: Operator, appointment_id: UUID) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        return dict(await bookings.demand(tx, appointment_id, "no_show", actor=who.actor))


@router.post("/appointments/{appointment_id}/cancel")
@exposed(*ANYTHING)
async def cancel(engine: EngineHere, who: Operator, appointment_id: UUID, requested: CancelIn) -> dict[str, Any]:
    """Cancel an appointment. What was paid is refunded by the clinic's policy."""
    async with acting(engine, who) as tx:
        row = await bookings.cancel(tx, appointment_id, by=requested.by, reason=requested.reason, actor=who.actor)
        return dict(row)


@router.post("/appointments/{appointment_id}/payment-link", status_code=202)
@exposed("mail", "call")
async def request_payment_link(engine: EngineHere, who: Operator, appointment_id: UUID) -> dict[str, Any]:
    """Open a payment page and send its link to the patient."""
    async with acting(engine, who) as tx:
        return {"number": await payments.request_link(tx, appointment_id)}


@router.post("/appointments/{appointment_id}/room", status_code=202)
@exposed("mail", "call")
async def request_room(engine: EngineHere, who: Operator, appointment_id: UUID) -> dict[str, Any]:
    """Create the video room of an appointment. Its URL is in the appointment a moment later."""
    async with acting(engine, who) as tx:
        return {"room_name": await bookings.request_room(tx, appointment_id)}


@router.post("/appointments/{appointment_id}/refund", status_code=202)
@exposed(*ANYTHING)
async def refund(
    engine: EngineHere,
    who: Operator,
    appointment_id: UUID,
    requested: RefundIn,
    idempotency_key: Annotated[str | None, Header(max_length=100)] = None,
) -> dict[str, Any]:
    """Refund a payment of an appointment, in full or in part. The same `Idempotency-Key` twice is one refund.

    Without it, the same amount is refunded once for the same reason.
    """
    async with acting(engine, who) as tx:
        made = await payments.refund(
            tx,
            appointment_id,
            amount=requested.amount,
            reason=requested.reason,
            key=idempotency_key,
            actor=who.actor,
            payment_id=requested.payment_id,
        )
        shown = {"id": made.id, "payment_id": made.payment.id, "status": made.status, "reason": made.reason}
        return {**shown, "amount": made.amount.amount, "currency": made.amount.currency}


# -- messages ----------------------------------------------------------------------------------------------------------


@router.get("/messages")
async def unanswered(engine: EngineHere, who: Viewer, limit: int = Query(100, ge=1, le=500)) -> list[dict[str, Any]]:
    """List the messages that wait for an answer, oldest first."""
    async with acting(engine, who) as tx:
        return [dict(row) for row in await conversations.unanswered(tx, tx.organization, limit=limit)]


@router.post("/messages/{message_id}/answer")
@exposed("mail")
async def answer(
    engine: EngineHere, who: Operator, message_id: Annotated[int, Path(ge=1, lt=2**63)], given: AnswerIn
) -> dict[str, Any]:
    """Answer a message over the channel that it came from, or close it."""
    async with acting(engine, who) as tx:
        row = await correspondence.answer(tx, message_id, given.text, actor=who.actor)
        return {"id": row["id"], "answered_at": row["answered_at"]}


app.routes(router)
