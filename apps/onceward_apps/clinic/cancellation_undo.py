"""Undo a cancellation: a patient may have been misunderstood, or have changed their mind."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from onceward import Tx
from onceward_apps.clinic import bookings, correspondence, payments
from onceward_apps.clinic.errors import NotAllowed
from onceward_apps.clinic.store import appointments, people

Row = Any


async def restore(tx: Tx, id: UUID, *, actor: str) -> Row:
    """Let a cancelled appointment stand again at its time, with a new video room, and send the patient a message.

    Money that went back stays with the patient: a new payment link asks for it.
    """
    before = await bookings.appointment(tx, id, lock=True)
    if before["status"] == "cancelled" and before["starts_at"] <= await people.now(tx):
        raise NotAllowed(f"appointment {id} was for {before['starts_at']}, which has passed: book a new one")
    await bookings.check_doctor(tx, before["doctor_id"], before["starts_at"], before["duration_minutes"], besides=id)
    try:
        await bookings.demand(tx, id, "restore", actor=actor)
    except asyncpg.UniqueViolationError as error:
        raise NotAllowed(f"the patient has another appointment at {before['starts_at']}") from error
    row = await appointments.clear_cancellation(tx, id)
    if row["room_name"] is not None:
        await bookings.request_room(tx, id, replace=True)
    await payments.refresh(tx, id)
    number = await appointments.count_cancellations(tx, id)
    await correspondence.send_to_patient(
        tx,
        "clinic.kept",
        kind="kept",
        key=f"clinic:{id}:restored:{number}",
        patient=await bookings.patient(tx, row["patient_id"]),
        appointment=row,
        expires_at=row["starts_at"],
    )
    return await bookings.appointment(tx, id)
