"""Personal data in the tables of the desk: notes about people, and rows of actions."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="desk notes",
        table="onceward.desk_notes",
        columns={"body": "text"},
        blank={"body": "'erased'"},
        key="t.id",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.desk_notes.entity_type": "the kind of the object that the note is about",
    "onceward.desk_notes.entity_id": "the id of a row, which the eraser of its own table judges",
    "onceward.desk_notes.author": "the name of a member of the organization, as in the audit log",
    "onceward.desk_views.*": "filters that members of the organization saved",
    "onceward.desk_runs.*": "ids of rows, and what a member of the organization entered",
}
