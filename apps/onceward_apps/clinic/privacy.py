"""All names of a patient, so that one command exports or erases everything that the clinic stores about the person."""

from __future__ import annotations

from uuid import UUID

from onceward import Tx
from onceward.messages import spellings
from onceward_apps.clinic import bookings
from onceward_apps.clinic.errors import NotAllowed
from onceward_apps.clinic.store import appointments, people, views


async def names_of(tx: Tx, patient_id: UUID) -> list[str]:
    """Return every name that the patient has here and in payloads: ids, numbers, address, rooms.

    A number that another patient shares stays out, because it is not the patient's alone.
    """
    row = await bookings.patient(tx, patient_id)
    names = [str(patient_id), *(row[field] for field in ("reference", "email") if row[field])]
    for number in {row["phone"], row["whatsapp"]} - {None}:
        if len(await people.patients_of_number(tx, number)) > 1:
            continue
        contact = await people.contact(tx, number)
        names += [*spellings(number), bookings.contact_ref(contact["id"])]
    for each in await views.appointments_of(tx, tx.organization, patient_id):
        names.append(str(each["id"]))
        if each["room_name"]:
            names.append(each["room_name"])
    return names


async def check_erasable(tx: Tx, patient_id: UUID) -> None:
    """Raise `NotAllowed` if the patient has an appointment ahead."""
    ahead = await appointments.upcoming(tx, [patient_id])
    if ahead:
        listed = ", ".join(str(each["id"]) for each in ahead)
        raise NotAllowed(f"patient {patient_id} has appointments ahead: cancel {listed} first")
