"""Change a cohort that people may be enrolled in, with what follows for them; and copy one for the next time.

A new price counts for new payment pages. With other dates everybody who is enrolled gets a mail and, if the course ends
later, more access. Access that somebody has is never shortened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import links, sessions
from onceward_apps.learning.app import app, settings
from onceward_apps.learning.cohorts import NewCohort, NewSession, create_cohort
from onceward_apps.learning.errors import InvalidRequest, InvalidTransition, LearningError, NotFound
from onceward_apps.learning.extensions import extend_access
from onceward_apps.learning.model import access_end
from onceward_apps.learning.store import cohorts as rows
from onceward_apps.learning.store import curriculum, enrollments, quizzes
from onceward_apps.learning.store import sessions as session_rows
from onceward_apps.learning.student_mails import mail_many

BATCH = 100
COPIED = (
    "description",
    "max_capacity",
    "price",
    "currency",
    "required_attendance_percentage",
    "has_live_sessions",
    "cal_event_type_id",
    "zoom_link",
    "slack_channel_url",
    "extension_price",
    "extension_days",
    "instalment_price",
    "instalment_count",
    "time_zone",
)
CHANGEABLE = (*(name for name in COPIED if name != "max_capacity"), "name", "starts_at", "ends_at")


@dataclass(frozen=True, slots=True)
class Changed:
    """The cohort after a change, what differs, and how many students and sessions the change concerns."""

    cohort: Any
    fields: tuple[str, ...]
    students: int
    moved_sessions: int = 0

    @property
    def has_new_dates(self) -> bool:
        return "starts_at" in self.fields or "ends_at" in self.fields


async def change_cohort(
    tx: Tx, cohort_id: UUID, values: Mapping[str, Any], *, actor: str, move_sessions: bool = False
) -> Changed:
    """Change the given fields of a cohort. With `move_sessions` coming sessions move by as much as the start."""
    cohort = await rows.lock(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if unknown := set(values) - set(CHANGEABLE):
        raise InvalidRequest(f"{', '.join(sorted(unknown))}: no field of a cohort that can be changed")
    new = {name: cohort[name] for name in CHANGEABLE} | dict(values)
    fields = tuple(name for name in CHANGEABLE if new[name] != cohort[name])
    students = await rows.count_active(tx, cohort_id)
    if not fields:
        return Changed(cohort, (), students)
    NewCohort(**new, max_capacity=cohort["max_capacity"])  # the rules of a new cohort hold for a changed one
    await _check(tx, cohort, new, fields)
    by = new["starts_at"] - cohort["starts_at"] if move_sessions else timedelta(0)
    coming = await session_rows.of_cohort(tx, cohort_id)
    _require_inside(cohort, new, coming, by)
    changed = await rows.change(tx, cohort_id, new)
    moved = await _move_sessions(tx, changed, coming, by) if by else 0
    if not moved and new["has_live_sessions"] and {"has_live_sessions", "cal_event_type_id"} & set(fields):
        for session in coming:  # from now on they are booked, also for those who have enrolled already
            await sessions.align(tx, changed, session)
    changes = {name: {"from": str(cohort[name]), "to": str(new[name])} for name in fields}
    await tx.audit("cohort_changed", entity_type="Cohort", entity_id=cohort_id, changes=changes, actor=actor)
    result = Changed(changed, fields, students, moved)
    if result.has_new_dates and cohort["status"] != "DRAFT":
        await tx.enqueue(
            follow_dates,
            cohort_id=cohort_id,
            starts_at=new["starts_at"].isoformat(),
            ends_at=new["ends_at"].isoformat(),
        )
    return result


async def _check(tx: Tx, cohort: Any, new: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    if cohort["status"] in ("COMPLETED", "CANCELLED"):
        raise InvalidTransition(f"{cohort['name']} is {cohort['status']}: it cannot be changed any more")
    if "starts_at" in fields:
        if cohort["status"] == "IN_PROGRESS":
            raise InvalidTransition(f"{cohort['name']} has begun: its start cannot be changed any more")
        if new["starts_at"] <= cohort["now"]:
            raise InvalidRequest(f"starts_at {new['starts_at']} has passed: choose a time to come")
    if "ends_at" in fields and new["ends_at"] <= cohort["now"]:
        raise InvalidRequest(f"ends_at {new['ends_at']} has passed: choose a time to come")
    if "currency" in fields and await rows.was_sold(tx, cohort["id"]):
        raise LearningError(f"people have paid for {cohort['name']} in {cohort['currency']}: the currency stays")
    if await rows.is_taken(tx, cohort["id"], new["name"], new["starts_at"]):
        raise LearningError(f"there is a cohort {new['name']!r} that starts at {new['starts_at']}: choose another name")


async def _move_sessions(tx: Tx, cohort: Any, coming: list[Any], by: timedelta) -> int:
    # In the direction of the move: two sessions must not start at the same time in between.
    for session in sorted(coming, key=lambda each: each["starts_at"], reverse=by > timedelta(0)):
        times = (session["starts_at"] + by, session["ends_at"] + by)
        moved = await session_rows.change(tx, session["id"], session["title"], *times)
        await sessions.align(tx, cohort, moved)
    return len(coming)


def _require_inside(cohort: Any, new: Mapping[str, Any], coming: list[Any], by: timedelta) -> None:
    """Refuse dates that leave out a session which is within the present ones."""

    def is_inside(session: Any, dates: Any, by: timedelta) -> bool:
        return dates["starts_at"] <= session["starts_at"] + by and session["ends_at"] + by <= dates["ends_at"]

    outside = [
        session["title"]
        for session in coming
        if is_inside(session, cohort, timedelta(0)) and not is_inside(session, new, by)
    ]
    if outside:
        names = ", ".join(outside[:3])
        raise InvalidRequest(f"{len(outside)} sessions would be outside of these dates ({names}): move or cancel them")


@app.job(name="learning.follow_dates", timeout=120)
async def follow_dates(tx: Tx, *, cohort_id: UUID, starts_at: str, ends_at: str, after: UUID | None = None) -> int:
    """Give the next students of a cohort with other dates their access, and mail them the dates."""
    students = await enrollments.active_in(tx, cohort_id, after, BATCH)
    if len(students) == BATCH:
        more = {"cohort_id": cohort_id, "starts_at": starts_at, "ends_at": ends_at}
        await tx.enqueue(follow_dates, **more, after=students[-1]["id"])
    mails: list[tuple[Any, str, dict[str, Any]]] = []
    for student in students:
        await extend_access(tx, student, access_end(student["ends_at"], settings().access_days))
        if (student["starts_at"], student["ends_at"]) != (_time(starts_at), _time(ends_at)):
            continue  # they changed again, and the job of that change mails
        data = {"name": student["user_name"], "cohortName": student["cohort_name"]}
        data |= {"startDate": starts_at, "endDate": ends_at, "homeUrl": links.home(student["id"])}
        mails.append((student, f"enrollment:{student['id']}:{cohort_id}:dates:{starts_at}:{ends_at}", data))
    return await mail_many(tx, "cohort-dates-changed", mails)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def duplicate_cohort(tx: Tx, cohort_id: UUID, *, name: str, starts_at: datetime, actor: str) -> Any:
    """Create a draft like a cohort: its texts, prices, content, and its sessions at the same distance from the
    start."""
    cohort = await rows.find(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    by = starts_at - cohort["starts_at"]
    planned = [
        NewSession(title=each["title"], starts_at=each["starts_at"] + by, ends_at=each["ends_at"] + by)
        for each in await session_rows.of_cohort(tx, cohort_id)
    ]
    values = {field: cohort[field] for field in COPIED}
    dates = {"starts_at": starts_at, "ends_at": cohort["ends_at"] + by}
    copy = await create_cohort(tx, NewCohort(name=name, **dates, **values, sessions=planned), actor=actor)
    await curriculum.copy_items(tx, cohort_id, copy["id"])
    await quizzes.copy(tx, cohort_id, copy["id"])
    return copy
