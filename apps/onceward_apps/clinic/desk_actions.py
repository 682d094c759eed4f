"""What the staff can do on the clinic's desk: book, move, cancel, undo, write, answer, send payment links, refund."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText
from onceward.money import Money
from onceward.web import ANYTHING, ActionRefused
from onceward_apps.clinic import bookings, cancellation_undo, correspondence, payments
from onceward_apps.clinic.desk import APPOINTMENTS, DOCTORS, INBOX, PATIENTS, STAFF, desk
from onceward_apps.clinic.desk_words import CHANNEL, PAYMENT
from onceward_apps.clinic.store import doctors

WAITS = "r.needs_answer and r.answered_at is null"
OPEN = "r.status in ('scheduled', 'confirmed')"


class ReasonForm(BaseModel):
    """Why an appointment is cancelled; the patient reads it."""

    reason: str = Field(title="Reason, for the patient", min_length=3, max_length=200)


class TimeForm(BaseModel):
    """When an appointment begins."""

    starts_at: datetime = Field(title="Starts")
    duration_minutes: int = Field(title="Minutes", ge=5, le=1440)


class BookForm(BaseModel):
    """An appointment for a patient."""

    starts_at: datetime = Field(title="Starts")
    duration_minutes: int = Field(30, title="Minutes", ge=5, le=1440)
    doctor: str | None = Field(None, title="Doctor", max_length=100, description="The name, as in the list of doctors.")
    price: Money | None = Field(None, title="Price", description="Empty: the appointment costs nothing.")


class DoctorForm(BaseModel):
    """A doctor of the clinic."""

    name: str = Field(title="Name", min_length=1, max_length=100)


class PatientForm(BaseModel):
    """How the clinic reaches a patient."""

    name: str = Field(title="Name", min_length=1, max_length=200)
    reference: str | None = Field(None, title="Reference", max_length=100, description="The clinic's own number.")
    phone: str | None = Field(None, title="Phone", max_length=40)
    whatsapp: str | None = Field(None, title="WhatsApp", max_length=40)
    email: str | None = Field(None, title="Email", max_length=200)


class AnswerForm(BaseModel):
    """The answer to a message."""

    text: Annotated[str, LongText()] = Field(title="Answer", min_length=1, max_length=1600)


@desk.action(APPOINTMENTS, "Confirm", when="r.status = 'scheduled'", roles=STAFF, causes=("mail", "call"))
async def confirm(tx: Tx, act: Act[BaseModel]) -> str:
    await bookings.demand(tx, UUID(act.id), "confirm", actor=act.by.actor)
    return "The appointment is confirmed."


async def load_time(tx: Tx, id: str) -> TimeForm | None:
    row = await tx.fetchrow("select starts_at, duration_minutes from clinic.appointments where id = $1", UUID(id))
    return None if row is None else TimeForm(starts_at=row["starts_at"], duration_minutes=row["duration_minutes"])


@desk.action(APPOINTMENTS, "Move", model=TimeForm, load=load_time, when=OPEN, roles=STAFF, causes=("mail", "call"))
async def move(tx: Tx, act: Act[TimeForm]) -> str:
    given = act.given
    await bookings.reschedule(
        tx, UUID(act.id), given.starts_at, duration_minutes=given.duration_minutes, actor=act.by.actor
    )
    return "The appointment is moved, and the patient must confirm it again."


@desk.action(
    APPOINTMENTS,
    "Did not come",
    when="r.status in ('scheduled', 'confirmed') and r.starts_at < onceward.now()",
    roles=STAFF,
    causes=("mail", "call"),
)
async def no_show(tx: Tx, act: Act[BaseModel]) -> str:
    await bookings.demand(tx, UUID(act.id), "no_show", actor=act.by.actor)
    return "It is noted that the patient did not come."


@desk.action(APPOINTMENTS, "Cancel", model=ReasonForm, when=OPEN, danger=True, roles=STAFF, causes=ANYTHING)
async def cancel(tx: Tx, act: Act[ReasonForm]) -> str:
    row = await bookings.cancel(tx, UUID(act.id), by="clinic", reason=act.given.reason, actor=act.by.actor)
    return f"The appointment is cancelled. Payment: {PAYMENT[row['payment_status']].lower()}."


@desk.action(
    APPOINTMENTS,
    "Undo the cancellation",
    when="r.status = 'cancelled' and r.starts_at > onceward.now()",
    roles=STAFF,
    causes=("mail", "call"),
)
async def restore(tx: Tx, act: Act[BaseModel]) -> str:
    row = await cancellation_undo.restore(tx, UUID(act.id), actor=act.by.actor)
    return (
        f"The appointment stands again, and the patient gets a message. Payment: "
        f"{PAYMENT[row['payment_status']].lower()}."
    )


@desk.action(APPOINTMENTS, "Write to the patient", model=AnswerForm, roles=STAFF, causes=("mail",))
async def write(tx: Tx, act: Act[AnswerForm]) -> str:
    channel = await correspondence.write(tx, UUID(act.id), act.given.text, actor=act.by.actor)
    return f"The message is on its way over {CHANNEL.get(channel, channel)}."


@desk.action(
    APPOINTMENTS, "Create the video room", when=f"{OPEN} and r.room_name is null", roles=STAFF, causes=("call",)
)
async def create_room(tx: Tx, act: Act[BaseModel]) -> str:
    await bookings.request_room(tx, UUID(act.id))
    return "The video room is being created."


@desk.action(
    APPOINTMENTS,
    "Send a payment link",
    when=f"{OPEN} and r.price > 0 and r.payment_status in ('unpaid', 'pending', 'failed', 'refunded')",
    roles=STAFF,
    causes=("mail", "call"),
)
async def send_link(tx: Tx, act: Act[BaseModel]) -> str:
    before = await bookings.appointment(tx, UUID(act.id), lock=True)
    if await payments.request_link(tx, UUID(act.id)) == before["payment_links"]:
        raise ActionRefused("The patient got a payment link less than a minute ago. Wait before you send another.")
    return "The patient gets a payment link."


@desk.action(
    APPOINTMENTS,
    "Refund",
    when="r.payment_status in ('paid', 'partially_refunded', 'review')",
    reason=True,
    danger=True,
    causes=ANYTHING,
)
async def refund(tx: Tx, act: Act[BaseModel]) -> str:
    await payments.refund(tx, UUID(act.id), amount=None, reason=act.reason, key=None, actor=act.by.actor)
    return "The patient gets the money back."


async def load_patient(tx: Tx, id: str) -> PatientForm | None:
    row = await tx.fetchrow("select * from clinic.patients where id = $1", UUID(id))
    return None if row is None else PatientForm.model_validate({name: row[name] for name in PatientForm.model_fields})


@desk.action(PATIENTS, "Add a patient", on="list", model=PatientForm, roles=STAFF)
async def add_patient(tx: Tx, act: Act[PatientForm]) -> str:
    row = await bookings.save_patient(tx, None, bookings.PatientData(**act.given.model_dump()), actor=act.by.actor)
    act.id = str(row["id"])
    return f"{row['name']} is added."


@desk.action(PATIENTS, "Book an appointment", model=BookForm, roles=STAFF, causes=("mail", "call"))
async def book(tx: Tx, act: Act[BookForm]) -> str:
    given = act.given
    if given.doctor is not None and await doctors.find(tx, given.doctor) is None:
        known = ", ".join(await doctors.names(tx)) or "none yet: add one on the page Doctors"
        raise ActionRefused(f"There is no doctor {given.doctor}. The clinic's doctors are: {known}.")
    row = await bookings.create(
        tx,
        UUID(act.id),
        given.starts_at,
        duration_minutes=given.duration_minutes,
        doctor=given.doctor,
        price=0 if given.price is None else given.price.amount,
        currency="USD" if given.price is None else given.price.currency,
        actor=act.by.actor,
    )
    return f"The appointment is booked. Payment: {PAYMENT[row['payment_status']].lower()}."


@desk.action(DOCTORS, "Add a doctor", on="list", model=DoctorForm, roles=STAFF)
async def add_doctor(tx: Tx, act: Act[DoctorForm]) -> str:
    row = await doctors.add(tx, act.given.name)
    if row is None:
        raise ActionRefused(f"The clinic has a doctor {act.given.name} already.")
    act.id = str(row["id"])
    return f"{act.given.name} is added."


@desk.action(PATIENTS, "Edit", model=PatientForm, load=load_patient, roles=STAFF)
async def edit(tx: Tx, act: Act[PatientForm]) -> str:
    await bookings.save_patient(tx, UUID(act.id), bookings.PatientData(**act.given.model_dump()), actor=act.by.actor)
    return "Saved."


@desk.action(INBOX, "Answer", model=AnswerForm, when=WAITS, in_list=True, roles=STAFF, causes=("mail",))
async def answer(tx: Tx, act: Act[AnswerForm]) -> str:
    await correspondence.answer(tx, int(act.id), act.given.text, actor=act.by.actor)
    return "The answer is on its way."


@desk.action(INBOX, "Close without an answer", when=WAITS, roles=STAFF)
async def close(tx: Tx, act: Act[BaseModel]) -> str:
    await correspondence.answer(tx, int(act.id), None, actor=act.by.actor)
    return "The message is closed. The patient gets no answer."


PAGES = desk.pages
