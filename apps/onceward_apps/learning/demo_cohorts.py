"""The cohorts of the demo's school. A visitor always finds a place, and can finish the quick course within minutes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import users
from onceward_apps.learning.cohort_changes import change_cohort
from onceward_apps.learning.cohorts import NewCohort, NewSession, create_cohort, set_status
from onceward_apps.learning.enrollments import enrol_free
from onceward_apps.learning.model import is_enrollable
from onceward_apps.learning.store import curriculum
from onceward_apps.learning.store import demo as rows

COURSE, SMALL, RUNNING, DOOMED, DONE, QUICK = (
    "Data Engineering, Spring",
    "Writing Workshop (4 places)",
    "Python for Analysts",
    "Night Class that will be cancelled",
    "Statistics, completed",
    "Spreadsheets in Five Minutes",
)
CROWD = "@students.example"
"""The addresses of simulated students. Others belong to visitors of the demo: it never refunds or moves them."""
NAMES = ("Thandi", "Sipho", "Aisha", "Jonas", "Mei", "Luca", "Zanele", "Omar", "Ines", "Pavel", "Ada", "Grace")
EVENT_TYPE = 7
"""The event type of the live sessions at the simulated Cal.com."""
USUAL = "Four weeks with live sessions, exercises and a certificate."


@dataclass(frozen=True, slots=True)
class Plan:
    """A cohort of the demo. `runs`: it has begun already, with simulated students."""

    name: str
    days: int
    places: int
    price: int
    runs: str = ""
    description: str = USUAL
    has_sessions: bool = True
    lessons: tuple[str, ...] = ("Introduction", "First steps", "A project", "Review")

    def serves(self, row: Any, now: datetime) -> bool:
        """Return whether this cohort is still what the plan is for."""
        if self.name == DOOMED:
            return True  # it is cancelled once, and not opened again
        return row["status"] == self.runs if self.runs else is_enrollable(row["status"], row["starts_at"], now)


PLANS = (
    Plan(COURSE, 21, 40, 49900),
    Plan(SMALL, 14, 4, 9900),
    Plan(RUNNING, 7, 60, 0, runs="IN_PROGRESS"),
    Plan(DOOMED, 10, 30, 19900),
    Plan(DONE, 5, 60, 0, runs="COMPLETED", has_sessions=False),  # a course that has ended has no sessions ahead
    Plan(
        QUICK,
        1,
        20,
        1900,
        description="It begins when you enrol, and ends when you have ticked its lessons: then answer the exit survey,"
        " and you have a certificate.",
        has_sessions=False,
        lessons=("Cells", "Formulas", "A table of your own"),
    ),
)


async def open_cohorts(tx: Tx) -> dict[str, UUID]:
    """Return a cohort for each plan, by name. One that nobody can enrol in any more is followed by another."""
    now = datetime.now(UTC)
    known = await rows.cohorts(tx, [plan.name for plan in PLANS])
    found: dict[str, UUID] = {}
    for plan in PLANS:
        row = next((each for each in known if each["name"] == plan.name and plan.serves(each, now)), None)
        found[plan.name] = await _open(tx, plan, now) if row is None else row["id"]
        if plan.name == QUICK and row is not None and row["starts_at"] - now < timedelta(hours=12):
            dates = {"starts_at": now + timedelta(days=1), "ends_at": now + timedelta(days=29)}
            await change_cohort(tx, row["id"], dates, actor="demo")
    return found


async def teach_visitors(tx: Tx) -> None:
    """Begin the quick course when a visitor has enrolled, and end it when everybody in it has done everything."""
    for row in await rows.visited(tx, QUICK):
        if row["status"] == "OPEN":
            await set_status(tx, row["id"], "CONFIRMED", actor="demo")
        if row["status"] in ("OPEN", "CONFIRMED"):
            await set_status(tx, row["id"], "IN_PROGRESS", actor="demo")
        elif row["is_finished"]:
            await set_status(tx, row["id"], "COMPLETED", actor="demo")


async def _open(tx: Tx, plan: Plan, now: datetime) -> UUID:
    start = now + timedelta(days=plan.days)
    if plan.name != QUICK:  # several of these may open on one day
        start = start.replace(hour=17, minute=0, second=0, microsecond=0)
    times = [start + timedelta(days=7 * week) for week in range(3 if plan.has_sessions else 0)]
    has_bookings = plan.name == RUNNING  # every student's sessions are booked at the simulated Cal.com
    new = NewCohort(
        name=plan.name,
        description=plan.description,
        starts_at=start,
        ends_at=start + timedelta(days=28),
        max_capacity=plan.places,
        price=plan.price,
        currency="EUR",
        has_live_sessions=has_bookings,
        cal_event_type_id=EVENT_TYPE if has_bookings else None,
        instalment_price=17500 if plan.name == COURSE else 0,
        instalment_count=3 if plan.name == COURSE else 0,
        extension_price=4900,
        sessions=[
            NewSession(title=f"Session {number}", starts_at=at, ends_at=at + timedelta(hours=1))
            for number, at in enumerate(times, 1)
        ],
    )
    cohort = await create_cohort(tx, new, actor="demo")
    await set_status(tx, cohort["id"], "OPEN", actor="demo")
    for position, title in enumerate(plan.lessons):
        await curriculum.add_item(
            tx,
            cohort["id"],
            kind="lesson",
            title=title,
            body=f"{title}: read, try, ask.",
            position=position,
            is_prep=position == 0,
        )
    if plan.runs:  # people enrol before the start, so these cohorts start after the first students
        await _enrol_first(tx, cohort["id"], plan.runs)
    return cohort["id"]


async def _enrol_first(tx: Tx, cohort_id: UUID, until: str) -> None:
    for first in NAMES[:6]:
        user = await users.register(tx, email=f"{first.lower()}{CROWD}", name=first)
        await enrol_free(tx, cohort_id, user["id"])
    for status in ("CONFIRMED", "IN_PROGRESS") + (("COMPLETED",) if until == "COMPLETED" else ()):
        await set_status(tx, cohort_id, status, actor="demo")
    has_ended = until == "COMPLETED"
    await rows.let_time_pass(
        tx, cohort_id, start=timedelta(days=40 if has_ended else 8), end=timedelta(days=40 if has_ended else 0)
    )
