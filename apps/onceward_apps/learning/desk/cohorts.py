"""What people do with cohorts: create, edit, copy, change the state, enrol people by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Choices, LongText, Options
from onceward.money import Money
from onceward.web import ANYTHING
from onceward.web.dashboard import ActionRefused, many
from onceward_apps.learning import cohort_changes, cohorts, enrollments, users
from onceward_apps.learning.desk.listings import COHORTS, desk
from onceward_apps.learning.desk.words import COHORT
from onceward_apps.learning.model import TRANSITIONS
from onceward_apps.learning.store import cohorts as rows

CHANGEABLE = "r.status not in ('CANCELLED', 'COMPLETED')"
MOST_PEOPLE = 200
INSTALMENTS = "Another way to pay, for people who enrol from now on. 0: only at once."
ZONE = "Mails count days and hours in it: Europe/Lisbon."
EVENT_TYPE = "Its number. With it, the live sessions of every student are booked there."
CHANGES = ", ".join(f"('{old}', '{new}', '{COHORT[new]}')" for old, every in TRANSITIONS.items() for new in every)
NEXT_STATES = f"""
select v.value, v.word from learning.cohorts c join (values {CHANGES}) v(old, value, word) on v.old = c.status
 where c.id = $1::text::uuid
"""
"""The states that a cohort can have after its present one."""


class CohortForm(BaseModel):
    """What a new cohort needs."""

    name: str = Field(title="Name", max_length=200)
    description: Annotated[str, LongText()] = ""
    starts_at: datetime = Field(title="Starts")
    ends_at: datetime = Field(title="Ends")
    max_capacity: int = Field(title="Places", ge=0, le=1_000_000)
    price: Money = Field(title="Price", description="0 for a cohort that costs nothing.")
    instalment_count: int = Field(0, title="Monthly instalments", ge=0, le=60, description=INSTALMENTS)
    instalment_price: Money | None = Field(None, title="Price of an instalment")
    time_zone: str = Field("UTC", title="Time zone", description=ZONE)
    has_live_sessions: bool = Field(False, title="Live sessions: attendance counts for the certificate")
    cal_event_type_id: int | None = Field(None, title="Event type at Cal.com", ge=1, description=EVENT_TYPE)
    required_attendance_percentage: int = Field(80, title="Attendance for a certificate, %", ge=0, le=100)


class PlacesForm(BaseModel):
    """How many places a cohort has."""

    max_capacity: int = Field(title="Places", ge=0, le=1_000_000, description="Students keep their places.")


class EditForm(BaseModel):
    """The fields of a cohort that can change."""

    name: str = Field(title="Name", max_length=200)
    description: Annotated[str, LongText()] = Field("", title="Description", max_length=5000)
    starts_at: datetime = Field(title="Starts")
    ends_at: datetime = Field(title="Ends")
    move_sessions: bool = Field(False, title="Move the sessions by as much as the start")
    time_zone: str = Field("UTC", title="Time zone", description=ZONE)
    price: Money = Field(title="Price", description="It counts for people who enrol from now on.")
    instalment_count: int = Field(0, title="Monthly instalments", ge=0, le=60, description=INSTALMENTS)
    instalment_price: Money | None = Field(None, title="Price of an instalment")
    has_live_sessions: bool = Field(False, title="Live sessions: attendance counts for the certificate")
    cal_event_type_id: int | None = Field(None, title="Event type at Cal.com", ge=1, description=EVENT_TYPE)
    extension_price: Money | None = Field(None, title="Price of more access", description="Empty: none is sold.")
    extension_days: int = Field(30, title="Days of more access", ge=1, le=3650)
    required_attendance_percentage: int = Field(80, title="Attendance for a certificate, %", ge=0, le=100)
    zoom_link: str | None = Field(None, title="Link of the call", max_length=2000)
    slack_channel_url: str | None = Field(None, title="Link of the channel", max_length=2000)


class CopyForm(BaseModel):
    """What differs in the copy."""

    name: str = Field(title="Name", max_length=200)
    starts_at: datetime = Field(title="Starts", description="Sessions keep their distance from the start.")


class PeopleForm(BaseModel):
    """People who get a place without paying here."""

    people: list[str] = Field(title="People", description="One in a line: the address, then the name if you know it.")


class StateForm(BaseModel):
    """The state that a cohort gets."""

    status: Annotated[str, Options(COHORT), Choices(NEXT_STATES)] = Field(title="State")


def _minor(price: Money, other: Money | None, field: str) -> int:
    """Return the amount of a further price, which is in the currency of the price itself."""
    if other is None or other.amount == 0:
        return 0
    if other.currency != price.currency:
        raise ActionRefused(f"{field}: {other.currency} is not the currency of the price, {price.currency}")
    return other.amount


def _prices(given: CohortForm | EditForm) -> dict[str, Any]:
    return {
        "price": given.price.amount,
        "currency": given.price.currency,
        "instalment_price": _minor(given.price, given.instalment_price, "Price of an instalment"),
        "instalment_count": given.instalment_count,
    }


@desk.action(COHORTS, "New cohort", on="list", model=CohortForm)
async def create(tx: Tx, act: Act[CohortForm]) -> str:
    given = act.given
    values = given.model_dump(exclude={"price", "instalment_price"}) | _prices(given)
    new = cohorts.NewCohort(**values)
    cohort = await cohorts.create_cohort(tx, new, actor=act.by.actor)
    act.id = str(cohort["id"])
    return f"{given.name} was created as a draft. Open it when it is ready."


async def load_places(tx: Tx, id: str) -> PlacesForm | None:
    places = await tx.fetchval("select max_capacity from learning.cohorts where id = $1", UUID(id))
    return None if places is None else PlacesForm(max_capacity=places)


@desk.action(
    COHORTS,
    "Change places",
    model=PlacesForm,
    load=load_places,
    when="r.status not in ('CANCELLED', 'COMPLETED')",
    causes=("mail",),
)
async def resize(tx: Tx, act: Act[PlacesForm]) -> str:
    await cohorts.set_capacity(tx, UUID(act.id), act.given.max_capacity, actor=act.by.actor)
    return f"The cohort has {act.given.max_capacity} places. People on the waitlist are invited to free ones."


async def load_cohort(tx: Tx, id: str) -> EditForm | None:
    row = await rows.find(tx, UUID(id))
    if row is None:
        return None
    names = ("name", "description", "starts_at", "ends_at", "time_zone", "extension_days", "instalment_count")
    names += ("required_attendance_percentage", "zoom_link", "slack_channel_url", "has_live_sessions")
    names += ("cal_event_type_id",)
    further = {
        name: Money(row[name], row["currency"]) if row[name] else None
        for name in ("extension_price", "instalment_price")
    }
    return EditForm(price=Money(row["price"], row["currency"]), **further, **{name: row[name] for name in names})


@desk.action(COHORTS, "Edit", model=EditForm, load=load_cohort, when=CHANGEABLE, causes=("mail", "call"))
async def edit(tx: Tx, act: Act[EditForm]) -> str:
    given = act.given
    values = given.model_dump(exclude={"price", "instalment_price", "extension_price", "move_sessions"})
    values |= _prices(given)
    values |= {"extension_price": _minor(given.price, given.extension_price, "Price of more access")}
    values |= {name: values[name] or None for name in ("zoom_link", "slack_channel_url")}
    changed = await cohort_changes.change_cohort(
        tx, UUID(act.id), values, actor=act.by.actor, move_sessions=given.move_sessions
    )
    if not changed.fields:
        return "Nothing changed."
    if changed.moved_sessions:
        act.says(f"{many(changed.moved_sessions, 'session')} will move, with their bookings.")
    if changed.has_new_dates and changed.cohort["status"] != "DRAFT":
        act.says(f"{many(changed.students, 'student')} will get a message with the new dates.")
    if "price" in changed.fields and changed.students:
        act.says(f"{many(changed.students, 'student')} who enrolled before keep what they paid.")
    return f"{given.name} was changed."


@desk.action(COHORTS, "Duplicate", model=CopyForm)
async def duplicate(tx: Tx, act: Act[CopyForm]) -> str:
    given = act.given
    copy = await cohort_changes.duplicate_cohort(
        tx, UUID(act.id), name=given.name, starts_at=given.starts_at, actor=act.by.actor
    )
    return f"{copy['name']} was created as a draft, with the same content and sessions."


@desk.action(
    COHORTS,
    "Enrol people",
    model=PeopleForm,
    when="r.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS')",
    reason=True,
    causes=("mail", "call"),
)
async def enrol(tx: Tx, act: Act[PeopleForm]) -> str:
    """Give places to people who do not pay here: a scholarship, a bank transfer, the seats of a company."""
    lines = [line.strip() for line in act.given.people if line.strip()]
    if not 1 <= len(lines) <= MOST_PEOPLE:
        raise ActionRefused(f"{len(lines)} people: enter 1 to {MOST_PEOPLE}, one in a line")
    before = await rows.count_active(tx, UUID(act.id))
    for line in lines:
        email, _, name = line.replace(",", " ").replace(";", " ").partition(" ")
        user = await users.register(tx, email=email, name=name)
        await enrollments.enrol_by_hand(tx, UUID(act.id), user["id"], reason=act.reason, actor=act.by.actor)
    added = await rows.count_active(tx, UUID(act.id)) - before
    if not added:
        raise ActionRefused("all of them are enrolled already")
    return f"{many(added, 'student')} enrolled. Each gets the welcome message."


@desk.action(
    COHORTS,
    "Change state",
    model=StateForm,
    when="r.status not in ('CANCELLED', 'COMPLETED')",
    reason=True,
    causes=ANYTHING,
)
async def change_state(tx: Tx, act: Act[StateForm]) -> str:
    await cohorts.set_status(tx, UUID(act.id), act.given.status, actor=act.by.actor, reason=act.reason)
    if act.given.status == "CANCELLED":
        paid = await tx.fetchval(
            "select count(*) from learning.enrollments where cohort_id = $1 and status = 'ACTIVE'", UUID(act.id)
        )
        act.says(f"{many(paid, 'student')} will get a message, and their money back.")
    return f"The cohort is now: {COHORT[act.given.status].lower()}."
