"""Personal data of a clinic. The history of appointments stays, without a name. The engine erases its payments."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.trust import Eraser
from onceward.trust.erase import Found, Person

FORGET_ROOMS = """
with rooms as (
    select r.organization_id, r.room_name from clinic.patients t
      join clinic.appointments a on a.organization_id = t.organization_id and a.patient_id = t.id
      join clinic.rooms r on r.organization_id = a.organization_id and r.appointment_id = a.id
     where t.ctid = any($1::text[]::tid[])
), people as (
    update clinic.room_participants p set user_name = null, user_id = null
      from rooms where p.organization_id = rooms.organization_id and p.room_name = rooms.room_name
)
-- Daily keeps the file itself: the schedule of lost callbacks deletes it there.
update clinic.recordings c set s3_key = null, error = null, status = case c.status when 'deleted' then 'deleted'
    else 'deleting' end
  from rooms where c.organization_id = rooms.organization_id and c.room_name = rooms.room_name
"""
FORGET_TEXTS = """
update clinic.inbound_messages i set text = '', patient_id = null
  from clinic.patients t where t.ctid = any($1::text[]::tid[]) and i.organization_id = t.organization_id
   and i.patient_id = t.id
"""
FORGET_SENT = """
update clinic.outgoing o set patient_id = null
  from clinic.patients t where t.ctid = any($1::text[]::tid[]) and o.organization_id = t.organization_id
   and o.patient_id = t.id
"""
FORGET_PATIENTS = """
update clinic.patients t
   set id = gen_random_uuid(), name = 'erased', reference = null, phone = null, whatsapp = null, email = null,
       locale = null, erased_at = onceward.now()
 where t.ctid = any($1::text[]::tid[])
"""
FORGET_LINKS = """
update clinic.appointments a set payment_url = null, cancellation_reason = null
  from clinic.patients t where t.ctid = any($1::text[]::tid[]) and a.organization_id = t.organization_id
   and a.patient_id = t.id
"""


async def forget_patients(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Blank the patients, the people and recordings of their rooms, and what they wrote. Money and states stay."""
    rows = [each.row for each in found]
    for statement in (FORGET_ROOMS, FORGET_TEXTS, FORGET_SENT, FORGET_LINKS, FORGET_PATIENTS):
        await tx.execute(statement, rows)


# A contact may be shared by a family: the row goes when its number is erased, and messages keep no number.
FORGET_CONTACTS = """
update clinic.inbound_messages i set contact_id = null, text = ''
  from clinic.contacts t where t.ctid = any($1::text[]::tid[]) and i.contact_id = t.id
"""


async def forget_contacts(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    rows = [each.row for each in found]
    await tx.execute(FORGET_CONTACTS, rows)
    await tx.execute("delete from clinic.contacts t where t.ctid = any($1::text[]::tid[])", rows)


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="people in video rooms",
        table="clinic.room_participants",
        columns={"user_name": "text", "user_id": "whole"},
        blank={"user_name": "null", "user_id": "null"},
        together=True,
    ),
    Eraser(
        name="recordings",
        table="clinic.recordings",
        columns={"s3_key": "text", "error": "text"},
        blank={"s3_key": "null", "error": "null"},
    ),
    Eraser(
        name="messages from patients",
        table="clinic.inbound_messages",
        columns={"text": "text", "answered_by": "text"},
        blank={"text": "''", "answered_by": "'erased'"},
    ),
    Eraser(
        name="appointments",
        table="clinic.appointments",
        columns={"cancellation_reason": "text", "payment_url": "text"},
        blank={"cancellation_reason": "'erased'", "payment_url": "null"},
    ),
    Eraser(
        name="history of appointments",
        table="clinic.appointment_history",
        columns={"actor": "text"},
        blank={"actor": "'erased'"},
    ),
    Eraser(
        name="contacts",
        table="clinic.contacts",
        columns={"number": "whole"},
        erase=forget_contacts,
        names=("number",),
        linked="t.number = any($4)",
    ),
    # Rows that stay without the person: an export shows them, an erasure blanks their texts through the patient.
    Eraser(
        name="appointments of patients",
        table="clinic.appointments",
        columns={"patient_id": "whole"},
        kept="an appointment names nobody once its patient is erased",
        linked="t.patient_id = any($5)",
        complete=True,
    ),
    Eraser(
        name="texts of patients",
        table="clinic.inbound_messages",
        columns={"patient_id": "whole"},
        kept="the text is removed with the patient",
        linked="t.patient_id = any($5)",
        complete=True,
    ),
    Eraser(
        name="stays in video rooms",
        table="clinic.room_participants",
        columns={"room_name": "whole"},
        kept="the names in a patient's rooms are removed with the patient",
        linked="t.room_name = any($4)",
        complete=True,
    ),
    Eraser(
        name="recordings of rooms",
        table="clinic.recordings",
        columns={"room_name": "whole"},
        kept="the file is deleted at Daily when the patient is erased",
        linked="t.room_name = any($4)",
        complete=True,
    ),
    # After the others, because it also changes their rows: a person may be known by one of several names.
    Eraser(
        name="patients",
        table="clinic.patients",
        columns={
            "id": "whole",
            "name": "text",
            "reference": "whole",
            "phone": "whole",
            "whatsapp": "whole",
            "email": "whole",
        },
        erase=forget_patients,
        # A patient with an appointment ahead is still needed: cancel the appointment first.
        waits="exists (select from clinic.appointments a where a.organization_id = t.organization_id and a.patient_id "
        "= t.id"
        " and a.status in ('scheduled', 'confirmed', 'in_progress')"
        " and a.starts_at > onceward.now() - interval '1 day')",
        names=("id", "reference", "phone", "whatsapp", "email"),
        linked="t.id = any($5) or t.reference = any($4) or t.phone = any($4) or t.whatsapp = any($4)"
        " or lower(t.email) = any($2)",
    ),
    Eraser(
        name="doctors",
        table="clinic.doctors",
        columns={"name": "text"},
        kept="The clinic names its doctors on its appointments: rename the doctor.",
    ),
)

SET = "a closed set"
OURS = "an id of ours or of a provider"

UNSEARCHED: dict[str, str] = {
    "clinic.clinics.*": "about the clinic",
    "clinic.patients.locale": "a language",
    "clinic.appointments.currency": SET,
    "clinic.appointments.reminder_plan": "hours of reminders",
    "clinic.appointments.room_name": OURS,
    "clinic.appointments.room_url": OURS,
    "clinic.appointment_history.from_status": SET,
    "clinic.appointment_history.to_status": SET,
    "clinic.appointment_history.trigger": SET,
    "clinic.inbound_messages.provider_id": OURS,
    "clinic.inbound_messages.kind": SET,
    "clinic.inbound_messages.outcome": SET,
    "clinic.outgoing.*": "ids and kinds",
    "clinic.replies.*": "ids",
    "clinic.rooms.*": "names that we choose",
    "clinic.meetings.*": "ids and times",
    "clinic.room_participants.session_id": OURS,
    "clinic.recordings.recording_id": OURS,
}
