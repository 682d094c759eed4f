"""The desk of the school: cohorts, students, enrolments, the waitlist, refunds and disputes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Chart, Column, Desk, DeskFigure, Detail, Listing, LongText, Options, Related, Role
from onceward.money import Money
from onceward.web import ANYTHING
from onceward.web.dashboard import ActionRefused, Figure, Pages, Reason, Status, View, many, number
from onceward_apps.learning import cohorts, enrollments
from onceward_apps.learning.app import app
from onceward_apps.learning.refund_requests import refund_enrollment, retry_refund
from onceward_apps.learning.store import overview

COHORT = {
    "DRAFT": "Draft",
    "OPEN": "Open for enrolment",
    "CONFIRMED": "Confirmed",
    "IN_PROGRESS": "Running",
    "COMPLETED": "Completed",
    "CANCELLED": "Cancelled",
}
ENROLMENT = {
    "ACTIVE": "Active",
    "REFUND_PENDING": "Refund on its way",
    "REFUNDED": "Refunded",
    "EXPIRED": "Access ended",
}
WAITING = {"ACTIVE": "Waiting", "INVITED": "Invited", "ENROLLED": "Enrolled", "REMOVED": "Left"}
REFUND = {
    "requested": "Requested",
    "sent": "Asked the service",
    "pending": "At the bank",
    "done": "Paid back",
    "failed": "Failed",
    "settled": "Settled by hand",
}
DISPUTE = {"inquiry": "Inquiry", "open": "Open: answer at Stripe", "won": "Won", "lost": "Lost"}

desk = Desk(
    "learning",
    "Learning",
    app,
    table="learning.cohorts",
    order=95,
    key="y",
    roles=(Role("instructor", "Instructor", "Sees cohorts and students"), Role("accountant", "Accountant", "Refunds")),
)

ENROLMENTS = Listing(
    name="enrolments",
    title="Enrolments",
    noun="enrolment",
    rows="learning.enrollments r join learning.users u on u.id = r.user_id join learning.cohorts c on c.id = r.cohort_id",
    order="-enrolled_at",
    roles=("instructor", "accountant"),
    columns=(
        Column("student", "Student", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("email", "Email", sql="u.email", search=True, wide=True),
        Column("cohort", "Cohort", sql="c.name"),
        Column("status", "State", words=ENROLMENT, tones={"ACTIVE": "good", "REFUND_PENDING": "warn"}, filter=True),
        Column("amount_paid", "Paid", kind="money", currency="r.currency"),
        Column("enrolled_at", "Enrolled", kind="time", sort=True, filter=True),
    ),
    empty="Students appear here when they have enrolled in a cohort.",
)
WAITLIST = Listing(
    name="waitlist",
    title="Waitlist",
    noun="entry",
    rows="learning.waitlist_entries r join learning.users u on u.id = r.user_id join learning.cohorts c on c.id = r.cohort_id",
    order="-added_at",
    roles=("instructor",),
    columns=(
        Column("person", "Person", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("cohort", "Cohort", sql="c.name"),
        Column("status", "State", words=WAITING, tones={"INVITED": "busy", "ENROLLED": "good"}, filter=True),
        Column("expired_invites", "Invites that expired", kind="number", wide=True),
        Column("added_at", "Since", kind="time", sort=True),
    ),
    empty="People appear here when a cohort is full and they ask to be invited.",
)
COHORTS = desk.listing(
    Listing(
        name="cohorts",
        title="Cohorts",
        noun="cohort",
        rows="learning.cohorts r",
        order="-starts_at",
        roles=("instructor",),
        columns=(
            Column("name", "Name", search=True),
            Column("status", "State", words=COHORT, filter=True, tones={"OPEN": "good", "IN_PROGRESS": "busy"}),
            Column("starts_at", "Starts", kind="time", sort=True, filter=True),
            Column(
                "taken",
                "Places taken",
                sql="(select count(*) from learning.enrollments e where e.cohort_id = r.id"
                " and e.status = 'ACTIVE') || ' of ' || r.max_capacity",
            ),
            Column("price", "Price", kind="money", currency="r.currency"),
        ),
        empty="Create the first cohort with the button above. It stays a draft until you open it.",
    ),
    detail=Detail(
        title="r.name",
        facts=(
            Column("ends_at", "Ends", kind="time"),
            Column("description", "Description"),
            Column("required_attendance_percentage", "Attendance for a certificate, %", kind="number"),
        ),
        related=(Related(ENROLMENTS, by="r.cohort_id"), Related(WAITLIST, by="r.cohort_id")),
        also=("Cohort",),
        words={
            "cohort_created": "Created",
            "cohort_resized": "Places changed",
            "cohort_status_changed": "State changed",
        },
    ),
)
STUDENTS = desk.listing(
    Listing(
        name="students",
        title="Students",
        noun="student",
        rows="learning.users r",
        order="-created_at",
        where="r.erased_at is null",
        roles=("instructor",),
        columns=(
            Column("name", "Name", sql="coalesce(nullif(r.name, ''), r.email)", search=True),
            Column("email", "Email", search=True),
            Column("last_login_at", "Last seen", kind="time", wide=True),
            Column("created_at", "Since", kind="time", sort=True, filter=True),
        ),
        empty="Students appear here when they enrol, or ask for a place.",
    ),
    detail=Detail(
        title="coalesce(nullif(r.name, ''), r.email)",
        related=(Related(ENROLMENTS, by="r.user_id"), Related(WAITLIST, by="r.user_id")),
        also=("User",),
    ),
)
desk.listing(
    ENROLMENTS,
    detail=Detail(
        title="coalesce(nullif(u.name, ''), u.email) || ', ' || c.name",
        facts=(
            Column("access_expires_at", "Access until", kind="time"),
            Column("refund_reason", "Reason of the refund"),
        ),
        also=("Enrollment",),
        words={"refund_requested": "Refund requested", "enrollment_moved": "Moved to another cohort"},
    ),
)
desk.listing(WAITLIST)
REFUNDS = desk.listing(
    Listing(
        name="refunds",
        title="Refunds",
        noun="refund",
        rows="onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column("status", "State", words=REFUND, tones={"done": "good", "failed": "bad"}, filter=True),
            Column("failure", "Why it failed"),
            Column("created_at", "Requested", kind="time", sort=True, filter=True),
        ),
        empty="Refunds of enrolments and extensions appear here.",
    )
)
desk.listing(
    Listing(
        name="disputes",
        title="Disputes",
        noun="dispute",
        rows="onceward.payment_disputes r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column(
                "status", "State", words=DISPUTE, tones={"open": "bad", "inquiry": "warn", "won": "good"}, filter=True
            ),
            Column("reference", "At the service"),
            Column("created_at", "Opened", kind="time", sort=True),
        ),
        empty="If the bank of a student asks for a payment back, it appears here.",
    )
)


class CohortForm(BaseModel):
    """What a new cohort needs."""

    name: str = Field(title="Name", max_length=200)
    description: Annotated[str, LongText()] = ""
    starts_at: datetime = Field(title="Starts")
    ends_at: datetime = Field(title="Ends")
    max_capacity: int = Field(title="Places", ge=0, le=1_000_000)
    price: Money = Field(title="Price", description="0 for a cohort that costs nothing.")
    required_attendance_percentage: int = Field(80, title="Attendance for a certificate, %", ge=0, le=100)


class PlacesForm(BaseModel):
    """How many places a cohort has."""

    max_capacity: int = Field(title="Places", ge=0, le=1_000_000, description="Students keep their places.")


class StateForm(BaseModel):
    """The state that a cohort gets."""

    status: Annotated[str, Options(COHORT)] = Field(title="State")


class MoveForm(BaseModel):
    """Where a student goes."""

    cohort: str = Field(title="Name of the cohort")


@desk.action(COHORTS, "New cohort", on="list", model=CohortForm)
async def create(tx: Tx, act: Act[CohortForm]) -> str:
    given = act.given
    new = cohorts.NewCohort(
        name=given.name,
        description=given.description,
        starts_at=given.starts_at,
        ends_at=given.ends_at,
        max_capacity=given.max_capacity,
        price=given.price.amount,
        currency=given.price.currency,
        required_attendance_percentage=given.required_attendance_percentage,
    )
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


@desk.action(
    ENROLMENTS,
    "Refund",
    on="rows",
    when="r.status in ('ACTIVE', 'EXPIRED')",
    reason=True,
    danger=True,
    roles=("accountant",),
    causes=ANYTHING,
)
async def refund(tx: Tx, act: Act[BaseModel]) -> str:
    requested = await refund_enrollment(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    return f"The student loses the place, and {many(len(requested), 'payment')} will be paid back."


@desk.action(
    ENROLMENTS, "Move to another cohort", model=MoveForm, when="r.status = 'ACTIVE'", reason=True, causes=("mail",)
)
async def move(tx: Tx, act: Act[MoveForm]) -> str:
    found = await tx.fetch("select id, name from learning.cohorts where lower(name) = lower($1)", act.given.cohort)
    if len(found) != 1:
        raise ActionRefused(f"{len(found)} cohorts have the name {act.given.cohort[:80]!r}: enter the name of one")
    await enrollments.move(tx, UUID(act.id), found[0]["id"], actor=act.by.actor, reason=act.reason)
    return f"The student is now in {found[0]['name']}. What was paid stays; a difference is not charged."


@desk.action(REFUNDS, "Try again", on="rows", when="r.status = 'failed'", roles=("accountant",), causes=ANYTHING)
async def repeat(tx: Tx, act: Act[BaseModel]) -> str:
    attempt = await retry_refund(tx, UUID(act.id), actor=act.by.actor)
    return f"Attempt {attempt} of the refund is on its way."


desk.figure(
    DeskFigure(
        title="Active enrolments",
        sql="select count(*) from learning.enrollments where status = 'ACTIVE'",
        listing="enrolments",
        query="status=ACTIVE",
    )
)
desk.figure(
    DeskFigure(
        title="Failed refunds",
        sql=f"select count(*) from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id where {overview.FAILED}",
        listing="refunds",
        query="status=failed",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Open disputes",
        sql="select count(*) from onceward.payment_disputes d join onceward.payments p on p.id = d.payment_id"
        f" where d.status in ('inquiry', 'open') and {overview.OURS}",
        listing="disputes",
        query="status=open",
        warn_above=0,
    )
)
desk.chart(
    Chart(
        name="enrolments",
        title="Enrolments",
        sql="select enrolled_at::date as at, count(*) as value from learning.enrollments where enrolled_at >= $1 group by 1",
        empty="Nobody has enrolled in the last 30 days.",
    )
)


async def status(view: View) -> Status:
    """Return the figures for the overview of the dashboard."""
    counts = await overview.counts(view.conn, view.organization)
    if not any(dict(counts).values()):
        return Status()
    note = f"{number(counts['new'])} in 24 hours"
    figure = Figure("Active enrolments", number(counts["active"]), desk.path, note, "bad" if counts["failed"] else "")
    reasons: list[Reason] = []
    if counts["failed"]:
        text = f"{many(counts['failed'], 'refund')} failed: students wait for their money"
        reasons.append(Reason("attention", text, f"{desk.path}/refunds?status=failed"))
    if counts["disputes"]:
        text = f"{many(counts['disputes'], 'payment')} disputed: answer at Stripe before the deadline"
        reasons.append(Reason("attention", text, f"{desk.path}/disputes"))
    return Status((figure,), tuple(reasons))


PAGES = desk.pages + Pages(status=(status,))
