"""What deletes the rows of each table of the clinic and when, or why they are kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "clinic.clinics": "kept: one row for each clinic",
    "clinic.patients": "kept: people, until they are erased",
    "clinic.contacts": "kept: one row for each number, until it is erased",
    "clinic.doctors": "kept: one row for each doctor of a clinic",
    "clinic.appointments": "kept for ever: medical and payment records of the clinic",
    "clinic.appointment_history": "kept for ever: evidence of every change of an appointment",
    "clinic.inbound_messages": "kept for ever: conversations with patients; an erasure removes the texts",
    "clinic.outgoing": "kept for ever: which message an appointment or contact got, so that none is sent twice",
    "clinic.replies": "kept for ever: against a second reply to a message",
    "clinic.rooms": "kept: one row for each video room, so one for each appointment with video",
    "clinic.meetings": "kept: one row for each meeting in a room",
    "clinic.room_participants": "kept: one row for each person in a meeting; an erasure removes the names",
    "clinic.recordings": (
        "kept: one row for each recording, also after the file was deleted; an error that came before its recording is "
        "deleted when the recording takes it over"
    ),
}
