"""The lists of the clinic's desk: appointments, patients, doctors, and messages that wait for an answer.

What people can do there is in `desk_actions`.
"""

from __future__ import annotations

from onceward.desk import Chart, Column, Desk, DeskFigure, Detail, Listing, Related, Role
from onceward_apps.clinic.app import HERE, app
from onceward_apps.clinic.desk_words import (
    APPOINTMENT,
    CANCELLED_BY,
    CHANNEL,
    HISTORY,
    PAID,
    PAYMENT,
    ROOM,
    ROOM_STATE,
)
from onceward_apps.clinic.model import TRIGGERS

desk = Desk(
    "clinic",
    "Clinic",
    app,
    table="clinic.appointments",
    languages=HERE / "languages",
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
        " join clinic.patients p on p.organization_id = r.organization_id and p.id = r.patient_id"
        " left join clinic.doctors d on d.organization_id = r.organization_id and d.id = r.doctor_id",
        order="-starts_at",
        roles=STAFF,
        columns=(
            Column("patient", "Patient", sql="p.name", search=True),
            Column("starts_at", "Starts", kind="time", sort=True, filter=True),
            Column(
                "doctor",
                "Doctor",
                sql="d.name",
                filter=True,
                choices="select id::text as value, name as word from clinic.doctors"
                " where organization_id = onceward.organization() order by 2 limit 200",
                by="r.doctor_id::text",
            ),
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
                "room",
                "Video room",
                sql=ROOM_STATE,
                words=ROOM,
                tones={"waiting": "warn", "on": "busy", "ready": "good"},
                filter=True,
            ),
            Column(
                "present",
                "In the room",
                sql="(select string_agg(coalesce(n.user_name, 'Somebody'), ', ' order by n.joined_at)"
                " from clinic.room_participants n"
                " where n.organization_id = r.organization_id and n.room_name = r.room_name and n.left_at is null)",
                wide=True,
            ),
            Column("cancelled_by", "Cancelled by", words=CANCELLED_BY, filter=True, wide=True),
            Column("price", "Price", kind="money", currency="r.currency", wide=True),
        ),
        presets=(
            ("Today", "starts_at=today&sort=starts_at"),
            ("Tomorrow", "starts_at=tomorrow&sort=starts_at"),
            ("Seven days", "starts_at=week&sort=starts_at"),
            ("Waiting room", "starts_at=today&room=waiting&sort=starts_at"),
            ("Not confirmed", "starts_at=next&status=scheduled&sort=starts_at"),
            ("Cancelled by patients", "starts_at=next&cancelled_by=patient&sort=starts_at"),
        ),
        empty="Book the first appointment on the page of a patient, or let another system do it: POST"
        " /api/v1/clinic/appointments.",
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
        empty="Add the first patient with the button above, or let another system do it: POST /api/v1/clinic/patients.",
    ),
    detail=Detail(
        title="r.name", related=(Related(APPOINTMENTS, by="r.patient_id"),), words={"patient.saved": "Details changed"}
    ),
)
DOCTORS = desk.listing(
    Listing(
        name="doctors",
        title="Doctors",
        noun="doctor",
        rows="clinic.doctors r",
        order="-created_at",
        roles=STAFF,
        columns=(
            Column("name", "Name"),
            Column(
                "today",
                "In the next 24 hours",
                sql="(select count(*) from clinic.appointments a where a.organization_id = r.organization_id"
                " and a.doctor_id = r.id and a.status not in ('cancelled', 'no_show') and a.starts_at >= onceward.now()"
                " and a.starts_at < onceward.now() + interval '24 h')",
                kind="number",
            ),
            Column("created_at", "Since", kind="time", sort=True, wide=True),
        ),
        empty="Add the first doctor with the button above.",
    ),
    detail=Detail(title="r.name", related=(Related(APPOINTMENTS, by="r.doctor_id"),)),
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
OWN = "($1::uuid is null or organization_id = $1)"
"""Row-level security hides the rows of other clinics but uses no index, so statements name the clinic."""
desk.figure(
    DeskFigure(
        title="Messages that wait",
        sql=f"select count(*) from clinic.inbound_messages where needs_answer and answered_at is null and {OWN}",
        listing="inbox",
        query="waits=yes",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Not confirmed",
        sql="select count(*) from clinic.appointments where status = 'scheduled'"
        f" and starts_at between onceward.now() and onceward.now() + interval '7 d' and {OWN}",
        listing="appointments",
        query="starts_at=week&status=scheduled&sort=starts_at",
        note="in the next 7 days",
    )
)
desk.figure(
    DeskFigure(
        title="Cancelled by patients",
        sql="select count(*) from clinic.appointments where status = 'cancelled' and cancelled_by = 'patient'"
        f" and starts_at between onceward.now() and onceward.now() + interval '7 d' and {OWN}",
        listing="appointments",
        query="starts_at=week&cancelled_by=patient&sort=starts_at",
        note="of the next 7 days; each can be undone",
    )
)
desk.figure(
    DeskFigure(
        title="Payments to look at",
        sql=f"select count(*) from clinic.appointments where payment_status in ('review', 'disputed') and {OWN}",
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
        " where starts_at >= $1 and status <> 'cancelled' and ($2::uuid is null or organization_id = $2) group by 1",
        roles=STAFF,
    )
)
