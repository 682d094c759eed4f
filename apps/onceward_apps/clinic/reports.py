"""Delivery reports: the engine applies them to messages; a reminder that WhatsApp cannot deliver goes out as a text."""

from __future__ import annotations

from onceward import Tx
from onceward.messages import DeliveryReport
from onceward_apps.clinic import bookings, correspondence
from onceward_apps.clinic.app import app
from onceward_apps.clinic.model import OPEN
from onceward_apps.clinic.store import conversations, people


@app.on_message("failed", template="clinic.reminder")
async def reminder_failed(tx: Tx, report: DeliveryReport) -> None:
    """Send the reminder by SMS if the patient has a phone and the appointment still lies ahead."""
    if report.channel != "whatsapp":
        return
    sent = await conversations.sent(tx, report.message)
    if sent is None or sent["appointment_id"] is None:
        return
    appointment = await bookings.appointment(tx, sent["appointment_id"])
    patient = await bookings.patient(tx, appointment["patient_id"])
    if appointment["status"] not in OPEN or appointment["starts_at"] <= await people.now(tx) or not patient["phone"]:
        return
    await correspondence.send(
        tx,
        "clinic.reminder",
        kind=sent["kind"],
        key=f"{report.key}:sms",
        channel="sms",
        contact=await bookings.save_contact(tx, patient["phone"]),
        patient=patient,
        appointment=appointment,
        expires_at=appointment["starts_at"],
    )
