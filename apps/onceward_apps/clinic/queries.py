"""Live queries of the clinic: the day, one appointment, and the inbox of unanswered messages."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from onceward import Query
from onceward_apps.clinic.app import app
from onceward_apps.clinic.store import conversations, views

DELIVERY_STALE_S = 5
"""Delivery reports change messages of the engine, which are too many to follow one by one."""


@app.query(name="clinic.day", allow="viewer")
async def day(q: Query, *, on: date | None = None) -> dict[str, Any]:
    """Return the appointments of a day: who is in the room, what was paid, which reminder was read."""
    q.watch("clinic.appointments")
    q.watch("clinic.room_participants")
    q.watch("clinic.outgoing")
    q.ignore("clinic.patients", "clinic.clinics", "clinic.message_states", "onceward.messages")
    q.stale_after(DELIVERY_STALE_S)
    chosen = on or await views.today(q, q.organization)
    return {"on": chosen, "appointments": await views.day(q, q.organization, chosen)}


@app.query(name="clinic.appointment", allow="viewer")
async def appointment(q: Query, *, id: UUID) -> dict[str, Any] | None:
    """Return one appointment with everything that happened to it."""
    q.watch("clinic.appointments")
    q.watch("clinic.inbound_messages")
    q.watch("clinic.outgoing")
    q.watch("clinic.room_participants")
    q.watch("clinic.recordings")
    q.ignore(
        "clinic.patients",
        "clinic.clinics",
        "clinic.message_states",
        "clinic.appointment_history",
        "onceward.payments",
        "onceward.payment_refunds",
        "onceward.messages",
    )
    q.stale_after(DELIVERY_STALE_S)
    return await views.appointment(q, q.organization, id)


@app.query(name="clinic.inbox", allow="viewer")
async def inbox(q: Query) -> list[dict[str, Any]]:
    """Return the messages that wait for an answer of a person, oldest first."""
    q.watch("clinic.inbound_messages")
    q.ignore("clinic.contacts", "clinic.patients")
    return [dict(row) for row in await conversations.unanswered(q, q.organization, limit=200)]
