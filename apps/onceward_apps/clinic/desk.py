"""The desk of the clinic: appointments, patients, and messages that wait for an answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Chart, Column, Desk, DeskFigure, Detail, Listing, LongText, Related, Role
from onceward.web import ANYTHING, ActionRefused
from onceward_apps.clinic import bookings, correspondence, paying
from onceward_apps.clinic.app import app
from onceward_apps.clinic.model import TRIGGERS

APPOINTMENT = {
    "scheduled": "Not confirmed yet",
    "confirmed": "Confirmed",
    "in_progress": "In the room",
    "completed": "Done",
    "cancelled": "Cancelled",
    "no_show": "Did not come",
}
PAYMENT = {
    "not_required": "Costs nothing",
    "unpaid": "Not paid",
    "pending": "Link sent",
    "failed": "Payment failed",
    "paid": "Paid",
    "review": "Needs a look",
    "refund_pending": "Refund on its way",
    "partially_refunded": "Partly refunded",
    "refunded": "Refunded",
    "disputed": "Disputed",
    "charged_back": "Taken back by the bank",
}
PAID = {
    "created": "Asked for",
    "open": "Not paid yet",
    "processing": "At the bank",
    "paid": "Paid",
    "partly_refunded": "Partly refunded",
    "refunded": "Refunded",
    "disputed": "Disputed",
    "lost": "Taken back by the bank",
    "failed": "Failed",
    "expired": "Expired",
}
CHANNEL = {"whatsapp": "WhatsApp", "sms": "Text message"}
HISTORY = """
select h.at, case h.trigger when 'reschedule' then 'Moved to another time' when 'created' then 'Booked' else
         case h.to_status when 'scheduled' then 'Booked' when 'confirmed' then 'Confirmed'
              when 'in_progress' then 'The meeting began' when 'completed' then 'The meeting ended'
              when 'cancelled' then 'Cancelled' else 'Did not come' end end as what,
       h.actor as who
  from clinic.appointment_history h where h.appointment_id = $1::text::uuid
union all
select o.created_at, 'Message to the patient: ' || replace(o.kind, '-', ' '), '' from clinic.outgoing o
 where o.appointment_id = $1::text::uuid
union all
select i.received_at, 'The patient wrote: ' || left(i.text, 200), '' from clinic.inbound_messages i
 where i.appointment_id = $1::text::uuid
union all
select p.joined_at, coalesce(p.user_name, 'Somebody') || ' joined the video room', '' from clinic.room_participants p
  join clinic.appointments a on a.room_name = p.room_name and a.organization_id = p.organization_id
 where a.id = $1::text::uuid
"""

desk = Desk(
    "clinic",
    "Clinic",
    app,
    table="clinic.appointments",
    key="c",
    zone="select timezone from clinic.clinics",
    roles=(Role("reception", "Reception", "Appointments, patients and messages"),),
)
STAFF = ("reception",)
PAYMENTS = Listing(
    name="payments",
    title="Payments",
    noun="payment",
    rows="onceward.payments r",
    where="r.subject_type = 'appointment'",
    order="-created_at",
    columns=(
        Column("title", "For"),
        Column("amount", "Amount", kind="money", currency="r.currency"),
        Column("received", "Received", kind="money", currency="r.currency"),
        Column(
            "status",
            "State",
            words=PAID,
            tones={"paid": "good", "failed": "bad", "disputed": "bad", "lost": "bad"},
            filter=True,
        ),
        Column("decided_reason", "Why it was returned", sql="replace(r.decided_reason, '_', ' ')"),
        Column("created_at", "Asked for", kind="time", sort=True, filter=True),
    ),
    empty="Payments of patients appear here when a payment link was sent.",
)
APPOINTMENTS = desk.listing(
    Listing(
        name="appointments",
        title="Appointments",
        noun="appointment",
        rows="clinic.appointments r"
        " join clinic.patients p on p.organization_id = r.organization_id and p.id = r.patient_id",
        order="-starts_at",
        roles=STAFF,
        columns=(
            Column("patient", "Patient", sql="p.name", search=True),
            Column("starts_at", "Starts", kind="time", sort=True, filter=True),
            Column(
                "status",
                "State",
                words=APPOINTMENT,
                tones={
                    "confirmed": "good",
                    "completed": "good",
                    "in_progress": "busy",
                    "cancelled": "bad",
                    "no_show": "warn",
                },
                filter=True,
            ),
            Column(
                "payment_status",
                "Payment",
                words=PAYMENT,
                tones={"paid": "good", "failed": "bad", "review": "warn", "disputed": "bad", "refund_pending": "busy"},
                filter=True,
            ),
            Column(
                "present",
                "In the room",
                sql="(select string_agg(coalesce(n.user_name, 'Somebody'), ', ' order by n.joined_at)"
                " from clinic.room_participants n"
                " where n.organization_id = r.organization_id and n.room_name = r.room_name and n.left_at is null)",
            ),
            Column("price", "Price", kind="money", currency="r.currency", wide=True),
        ),
        presets=(
            ("Today", "starts_at=today&sort=starts_at"),
            ("Tomorrow", "starts_at=tomorrow&sort=starts_at"),
            ("Seven days", "starts_at=week&sort=starts_at"),
            ("Not confirmed", "starts_at=next&status=scheduled&sort=starts_at"),
        ),
        empty="Appointments appear here when another system books one: POST /api/v1/clinic/appointments.",
    ),
    detail=Detail(
        title="p.name",
        facts=(
            Column("duration_minutes", "Minutes", kind="number"),
            Column("reference", "Reference of the patient", sql="p.reference"),
            Column("phone", "Phone", sql="coalesce(p.whatsapp, p.phone)"),
            Column("cancellation_reason", "Reason of the cancellation"),
        ),
        related=(Related(PAYMENTS, by="r.subject_id", type="text"),),
        timeline=HISTORY,
        # The history has these too, in words.
        words={f"appointment.{trigger}": "" for trigger in ("create", "created", *TRIGGERS)},
        documents="select 'Video room' as title, room_url as path from clinic.appointments"
        " where id = $1::text::uuid and room_url is not null",
    ),
)
desk.listing(PAYMENTS)
PATIENTS = desk.listing(
    Listing(
        name="patients",
        title="Patients",
        noun="patient",
        rows="clinic.patients r",
        where="r.erased_at is null",
        order="-created_at",
        roles=STAFF,
        columns=(
            Column("name", "Name", search=True),
            Column("reference", "Reference", search=True),
            Column("phone", "Phone", sql="coalesce(r.whatsapp, r.phone)"),
            Column("email", "Email", search=True, wide=True),
            Column("created_at", "Since", kind="time", sort=True, wide=True),
        ),
        empty="Patients appear here with their first appointment.",
    ),
    detail=Detail(
        title="r.name", related=(Related(APPOINTMENTS, by="r.patient_id"),), words={"patient.saved": "Details changed"}
    ),
)
INBOX = desk.listing(
    Listing(
        name="inbox",
        title="Messages",
        noun="message",
        rows="clinic.inbound_messages r"
        " left join clinic.patients p on p.organization_id = r.organization_id and p.id = r.patient_id"
        " left join clinic.contacts c on c.id = r.contact_id",
        id_type="bigint",
        roles=STAFF,
        columns=(
            Column("person", "From", sql="coalesce(p.name, c.number, 'Unknown number')"),
            Column("text", "Message", sql="coalesce(nullif(r.text, ''), '(' || r.kind || ')')"),
            Column(
                "waits",
                "Waits for an answer",
                sql="(r.needs_answer and r.answered_at is null)",
                kind="yes",
                filter=True,
            ),
            Column("channel", "Over", words=CHANNEL, filter=True, wide=True),
            Column("received_at", "Received", kind="time", filter=True),
        ),
        presets=(("Waiting", "waits=yes"),),
        empty="Messages of patients appear here.",
    ),
    detail=Detail(title="coalesce(p.name, c.number, 'Unknown number')", also=("inbound_message",)),
)
WAITS = "r.needs_answer and r.answered_at is null"
OPEN = "r.status in ('scheduled', 'confirmed')"


class ReasonForm(BaseModel):
    """Why an appointment is cancelled; the patient reads it."""

    reason: str = Field(title="Reason, for the patient", min_length=3, max_length=200)


class TimeForm(BaseModel):
    """When an appointment begins."""

    starts_at: datetime = Field(title="Starts")
    duration_minutes: int = Field(title="Minutes", ge=5, le=1440)


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
    APPOINTMENTS, "Create the video room", when=f"{OPEN} and r.room_name is null", roles=STAFF, causes=("call",)
)
async def create_room(tx: Tx, act: Act[BaseModel]) -> str:
    await bookings.request_room(tx, UUID(act.id))
    return "The video room is being created."


@desk.action(
    APPOINTMENTS,
    "Send a payment link",
    when=f"{OPEN} and r.price > 0 and r.payment_status in ('unpaid', 'pending', 'failed')",
    roles=STAFF,
    causes=("mail", "call"),
)
async def send_link(tx: Tx, act: Act[BaseModel]) -> str:
    before = await bookings.appointment(tx, UUID(act.id), lock=True)
    if await paying.request_link(tx, UUID(act.id)) == before["payment_links"]:
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
    await paying.refund(tx, UUID(act.id), amount=None, reason=act.reason, key=None, actor=act.by.actor)
    return "The patient gets the money back."


async def load_patient(tx: Tx, id: str) -> PatientForm | None:
    row = await tx.fetchrow("select * from clinic.patients where id = $1", UUID(id))
    return None if row is None else PatientForm.model_validate({name: row[name] for name in PatientForm.model_fields})


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


desk.figure(
    DeskFigure(
        title="Messages that wait",
        sql="select count(*) from clinic.inbound_messages where needs_answer and answered_at is null",
        listing="inbox",
        query="waits=yes",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Not confirmed",
        sql="select count(*) from clinic.appointments where status = 'scheduled'"
        " and starts_at between onceward.now() and onceward.now() + interval '7 d'",
        listing="appointments",
        query="starts_at=week&status=scheduled&sort=starts_at",
        note="in the next 7 days",
    )
)
desk.figure(
    DeskFigure(
        title="Payments to look at",
        sql="select count(*) from clinic.appointments where payment_status in ('review', 'disputed')",
        listing="appointments",
        query="payment_status=review",
        warn_above=0,
    )
)
desk.shortlist(APPOINTMENTS, "Today", "starts_at=today&sort=starts_at", rows=20)
desk.chart(
    Chart(
        name="appointments",
        title="Appointments",
        sql="select starts_at::date as at, count(*) as value from clinic.appointments"
        " where starts_at >= $1 and status <> 'cancelled' group by 1",
        roles=STAFF,
    )
)
PAGES = desk.pages
