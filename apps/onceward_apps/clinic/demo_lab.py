"""A laboratory of the demo. Its webhooks fail until an operator repairs the patient's data, then they can be replayed.

The laboratory knows a patient only by the clinic's reference (`MRN-...`). If no patient has the reference, the handler
cannot know who is meant and refuses the event: a dead letter, which nothing deletes. The operator saves the reference
with the patient, replays the event from the dashboard, and its consequences show the message to the patient.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from onceward import Event, Onceward, Permanent, Tx
from onceward_apps.clinic import correspondence
from onceward_apps.clinic.store import people

SOURCE = "clinic-lab"
TYPE = "result.ready"

lab = Onceward("clinic_lab")


class Result(BaseModel):
    id: str = Field(min_length=1, max_length=100)
    reference: str = Field(min_length=1, max_length=100)


@lab.on(SOURCE, TYPE)
async def result_ready(event: Event[Result], tx: Tx) -> dict[str, Any]:
    """Tell the patient that a result is ready."""
    known = await people.patients(tx, search=event.data.reference, limit=2)
    patient = next((row for row in known if row["reference"] == event.data.reference), None)
    if patient is None:
        raise Permanent(
            f"no patient has the reference {event.data.reference}: save it with the patient, then replay this event"
        )
    contact = await people.contact(tx, patient["whatsapp"])
    await correspondence.send(
        tx,
        "clinic.answer",
        kind="lab-result",
        key=f"clinic:lab:{event.data.id}",
        channel="whatsapp",
        contact=contact,
        patient=patient,
        appointment=None,
        data={"text": "Your laboratory result is ready. Please call us."},
    )
    return {"effect": "patient_told"}
