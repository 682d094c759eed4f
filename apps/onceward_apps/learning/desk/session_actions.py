"""What people do with sessions and content: add, change, cancel, recordings, attendance."""

from __future__ import annotations

from csv import DictReader
from datetime import datetime
from io import StringIO
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText, Options, Upload
from onceward.web.dashboard import ActionRefused, many
from onceward_apps.learning import attendance, content, sessions
from onceward_apps.learning.desk.listings import COHORTS, ITEMS, SESSIONS, desk
from onceward_apps.learning.desk.words import KIND
from onceward_apps.learning.store import cohorts as cohort_rows
from onceward_apps.learning.store import curriculum
from onceward_apps.learning.store import sessions as rows

RESOURCES = {
    "": "Everybody",
    "beginner-prep": "Beginners, by the intake survey",
    "advanced-challenges": "Advanced students, by the intake survey",
}
COMING = "r.cancelled_at is null and r.starts_at > onceward.now()"
PRESENT = frozenset({"yes", "true", "1", "x", "present"})


class SessionForm(BaseModel):
    """A live session."""

    title: str = Field(title="Title", max_length=200, min_length=1)
    starts_at: datetime = Field(title="Starts")
    ends_at: datetime = Field(title="Ends")


class RecordingForm(BaseModel):
    """Where the recording of a session is."""

    url: str = Field(title="Address", max_length=2000, pattern=r"^https?://[^\s\"'<>]+$")


class AttendanceForm(BaseModel):
    """Who was absent."""

    absent: list[str] = Field(
        default_factory=list[str],
        title="Absent",
        description="The addresses of those who were absent, one in a line. All others were present.",
    )
    file: Upload | None = Field(
        None, title="Or a CSV file", description="With the columns email and present (yes or no)."
    )


class ItemForm(BaseModel):
    """A lesson, an assignment or a quiz."""

    kind: Annotated[str, Options(KIND)] = Field("lesson", title="Kind")
    title: str = Field(title="Title", max_length=200, min_length=1)
    body: Annotated[str, LongText()] = Field("", title="Text", max_length=100_000)
    url: str | None = Field(None, title="Link", max_length=2000, pattern=r"^https?://[^\s\"'<>]+$")
    position: int = Field(0, title="Position", ge=0, le=100_000)
    required: bool = Field(True, title="Required for the certificate")
    graded: bool = Field(False, title="An assignment: handed in and graded by an instructor")
    pass_percentage: int = Field(80, title="A quiz with questions: right answers needed, %", ge=1, le=100)
    is_prep: bool = Field(False, title="Open before the start")
    resource: Annotated[str, Options(RESOURCES)] = Field("", title="For")


@desk.action(
    COHORTS,
    "Add session",
    model=SessionForm,
    when="r.status not in ('CANCELLED', 'COMPLETED')",
    causes=("mail", "call"),
)
async def add_session(tx: Tx, act: Act[SessionForm]) -> str:
    if await rows.at(tx, UUID(act.id), act.given.starts_at) is not None:
        raise ActionRefused("the cohort has a session that starts then: change that one, or choose another time")
    session = await sessions.add(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    await _say_who_hears(tx, act, session["cohort_id"])
    return f"{session['title']} was added."


async def load_session(tx: Tx, id: str) -> SessionForm | None:
    row = await rows.find(tx, UUID(id))
    return None if row is None else SessionForm(**{name: row[name] for name in ("title", "starts_at", "ends_at")})


@desk.action(SESSIONS, "Change", model=SessionForm, load=load_session, when=COMING, causes=("mail", "call"))
async def change(tx: Tx, act: Act[SessionForm]) -> str:
    before = await rows.find(tx, UUID(act.id))
    session = await sessions.change(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    if (before["starts_at"], before["ends_at"]) != (session["starts_at"], session["ends_at"]):
        await _say_who_hears(tx, act, session["cohort_id"])
    return f"{session['title']} was changed."


@desk.action(
    SESSIONS,
    "Cancel",
    when="r.cancelled_at is null and r.ends_at > onceward.now()",
    reason=True,
    danger=True,
    causes=("mail", "call"),
)
async def cancel(tx: Tx, act: Act[BaseModel]) -> str:
    session = await sessions.cancel(tx, UUID(act.id), actor=act.by.actor, reason=act.reason)
    await _say_who_hears(tx, act, session["cohort_id"])
    return f"{session['title']} is cancelled. Students read the reason. It counts in nobody's attendance."


async def _say_who_hears(tx: Tx, act: Act[Any], cohort_id: UUID) -> None:
    cohort = await cohort_rows.find(tx, cohort_id)
    students = 0 if cohort["status"] == "DRAFT" else await cohort_rows.count_active(tx, cohort_id)
    if students:
        act.says(f"{many(students, 'student')} will get a message, and their bookings follow.")


@desk.action(SESSIONS, "Set recording", model=RecordingForm, when="r.cancelled_at is null", roles=("instructor",))
async def set_recording(tx: Tx, act: Act[RecordingForm]) -> str:
    if (await rows.find(tx, UUID(act.id)))["recording_url"] == act.given.url:
        raise ActionRefused("the session has this recording already")
    await sessions.set_recording(tx, UUID(act.id), act.given.url, actor=act.by.actor)
    return "Students find the recording on their page."


async def load_absent(tx: Tx, id: str) -> AttendanceForm | None:
    return AttendanceForm(absent=await rows.absent(tx, UUID(id)), file=None)


@desk.action(
    SESSIONS,
    "Attendance",
    model=AttendanceForm,
    load=load_absent,
    when="r.cancelled_at is null and r.starts_at <= onceward.now()",
    roles=("instructor",),
    causes=("mail", "call"),
)
async def check_off(tx: Tx, act: Act[AttendanceForm]) -> str:
    absent = act.given.absent if act.given.file is None else _absent_in(act.given.file)
    entered = await attendance.check_off(tx, UUID(act.id), absent=absent, actor=act.by.actor)
    if entered.students:
        return f"The attendance of {many(entered.students, 'student')} is being recorded. It takes a moment."
    if not entered.changed:
        raise ActionRefused("nothing changed: this is what is recorded")
    return f"{many(len(set(absent)), 'student')} absent, all others present. {many(entered.changed, 'mark')} changed."


def _absent_in(file: Upload) -> list[str]:
    """Return the addresses of a CSV file that are not marked as present."""
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ActionRefused(f"{file.name} is not a text in UTF-8: save it as CSV") from error
    lines = DictReader(StringIO(text), delimiter=";" if text.partition("\n")[0].count(";") else ",")
    columns = {str(name).strip().lower(): name for name in lines.fieldnames or ()}
    if not {"email", "present"} <= set(columns):
        raise ActionRefused(f"{file.name} needs the columns email and present in its first line")
    return [
        str(line[columns["email"]]).strip()
        for line in lines
        if str(line[columns["present"]] or "").strip().lower() not in PRESENT and line[columns["email"]]
    ]


def _item_values(form: ItemForm) -> dict[str, Any]:
    values = form.model_dump()
    return values | {name: values[name] or None for name in ("body", "url", "resource")}


@desk.action(COHORTS, "Add content", model=ItemForm, when="r.status <> 'CANCELLED'", roles=("instructor",))
async def add_item(tx: Tx, act: Act[ItemForm]) -> str:
    item = await content.add_item(tx, UUID(act.id), _item_values(act.given), actor=act.by.actor)
    return f"{item['title']} was added."


async def load_item(tx: Tx, id: str) -> ItemForm | None:
    row = await curriculum.lock_item(tx, UUID(id))
    if row is None:
        return None
    values: dict[str, Any] = {name: row[name] for name in curriculum.ITEM_FIELDS}
    return ItemForm.model_validate(values | {"body": row["body"] or "", "resource": row["resource"] or ""})


@desk.action(ITEMS, "Edit", model=ItemForm, load=load_item, roles=("instructor",))
async def edit_item(tx: Tx, act: Act[ItemForm]) -> str:
    await content.change_item(tx, UUID(act.id), _item_values(act.given), actor=act.by.actor)
    return f"{act.given.title} was changed. Who has done it has still done it."


@desk.action(ITEMS, "Remove", danger=True)
async def remove_item(tx: Tx, act: Act[BaseModel]) -> str:
    done = await content.remove_item(tx, UUID(act.id), actor=act.by.actor)
    return f"The item is gone. {many(done, 'student')} had done it; it no longer counts for anybody."
