"""Cohorts: create, change the status with everything that follows from it, change the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.capacity import open_pool, resize
from onceward.integrations.stripe import AMOUNTS
from onceward_apps.learning import activity, links
from onceward_apps.learning.certificates import certify_cohort
from onceward_apps.learning.errors import InvalidRequest, InvalidTransition, LearningError, NotFound
from onceward_apps.learning.jobs import ask_for_exit_survey, close_waitlist, mail_confirmation, promote_soon
from onceward_apps.learning.model import (
    COHORT_STATUSES,
    CohortStatus,
    can_change,
    known_zone,
    pool_key,
    transitions_from,
)
from onceward_apps.learning.store import cohorts as rows
from onceward_apps.learning.store import sessions as sessions_rows
from onceward_apps.learning.workflows import cancel_cohort

STUDENTS_IN_EVENT = 100
"""`cohort.started` names this many students, and links to the list of all. An event must not grow with a cohort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    title: str
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCohort:
    """A cohort to create. Prices are in minor units. Two or more monthly instalments are an alternative to the
    price."""

    name: str
    description: str = ""
    starts_at: datetime
    ends_at: datetime
    max_capacity: int
    price: int
    currency: str
    required_attendance_percentage: int = 80
    has_live_sessions: bool = False
    cal_event_type_id: int | None = None
    zoom_link: str | None = None
    slack_channel_url: str | None = None
    extension_price: int = 0
    extension_days: int = 30
    instalment_price: int = 0
    instalment_count: int = 0
    time_zone: str = "UTC"
    sessions: Sequence[NewSession] = field(default=())

    def __post_init__(self) -> None:
        if not 1 <= len(self.name.strip()) <= 200:
            raise InvalidRequest(f"name has {len(self.name.strip())} characters: 1 to 200 are allowed")
        if self.starts_at.tzinfo is None or self.ends_at.tzinfo is None:
            raise InvalidRequest("starts_at and ends_at need a time zone")
        if self.ends_at <= self.starts_at:
            raise InvalidRequest(f"ends_at {self.ends_at} is not after starts_at {self.starts_at}")
        if known_zone(self.time_zone) is None:
            raise InvalidRequest(f"time_zone {self.time_zone!r} is not a zone, such as Europe/Lisbon")
        if not 0 <= self.max_capacity <= 1_000_000:
            raise InvalidRequest(f"max_capacity is {self.max_capacity}: 0 to 1000000 are allowed")
        if not 0 <= self.price <= 100_000_000 or not 0 <= self.extension_price <= 100_000_000:
            raise InvalidRequest(f"price is {self.price}: 0 to 100000000 minor units are allowed")
        if not 0 <= self.required_attendance_percentage <= 100:
            raise InvalidRequest("required_attendance_percentage must be between 0 and 100")
        if not (self.currency.isascii() and self.currency.isupper() and len(self.currency) == 3):
            raise InvalidRequest(f"currency {self.currency!r} is not a code of three capital letters")
        if not AMOUNTS.takes(self.currency):
            raise InvalidRequest(f"the payment service does not accept payments in {self.currency}")
        if self.instalment_count not in (0, *range(2, 61)) or (self.instalment_count > 0) != (
            self.instalment_price > 0
        ):
            raise InvalidRequest("instalments need an instalment_price and an instalment_count of 2 to 60")
        if not 0 <= self.instalment_price <= 100_000_000 or (self.instalment_price > 0 and self.price == 0):
            raise InvalidRequest(f"instalment_price is {self.instalment_price}: 0 to 100000000, and 0 if price is 0")
        for amount in (self.price, self.extension_price, self.instalment_price):
            if amount % AMOUNTS.step(self.currency) != 0:
                raise InvalidRequest(
                    f"{amount} {self.currency} is not a multiple of {AMOUNTS.step(self.currency)} minor units"
                )


async def create_cohort(tx: Tx, new: NewCohort, *, actor: str) -> Any:
    """Create a cohort as DRAFT, with its capacity pool and sessions."""
    values = asdict(new)
    sessions: Sequence[dict[str, Any]] = values.pop("sessions")
    order = ("name", "description", "starts_at", "ends_at", "max_capacity", "price", "currency")
    order += ("required_attendance_percentage", "has_live_sessions", "cal_event_type_id", "zoom_link")
    order += ("slack_channel_url", "extension_price", "extension_days", "instalment_price", "instalment_count")
    order += ("time_zone",)
    cohort = await rows.add(tx, {name: values[name] for name in order})
    if cohort is None:
        raise LearningError(
            f"there is a cohort {new.name!r} that starts at {new.starts_at}: choose another name or start"
        )
    await open_pool(tx, pool_key(cohort["id"]), capacity=new.max_capacity)
    for session in sessions:
        await sessions_rows.add(tx, cohort["id"], session["title"], session["starts_at"], session["ends_at"])
    await tx.audit("cohort_created", entity_type="Cohort", entity_id=cohort["id"], actor=actor)
    return cohort


async def set_capacity(tx: Tx, cohort_id: UUID, capacity: int, *, actor: str) -> Any:
    """Change the number of places. Students keep theirs; with more places people are invited from the waitlist."""
    if not 0 <= capacity <= 1_000_000:
        raise InvalidRequest(f"max_capacity is {capacity}: 0 to 1000000 are allowed")
    cohort = await rows.lock(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if cohort["status"] in ("CANCELLED", "COMPLETED"):
        raise InvalidTransition(f"cohort {cohort_id} is {cohort['status']}: its capacity cannot change")
    if cohort["max_capacity"] == capacity:
        return cohort
    await resize(tx, pool_key(cohort_id), capacity=capacity)
    changed = await rows.resize(tx, cohort_id, capacity)
    changes = {"max_capacity": {"from": cohort["max_capacity"], "to": capacity}}
    await tx.audit("cohort_resized", entity_type="Cohort", entity_id=cohort_id, changes=changes, actor=actor)
    await promote_soon(tx, cohort_id)
    return changed


async def set_status(tx: Tx, cohort_id: UUID, new: CohortStatus | str, *, actor: str, reason: str | None = None) -> Any:
    """Change the status of a cohort, with its side effects in the same commit.

    Anything not drawn in `model` is refused.
    """
    if new not in COHORT_STATUSES:
        raise InvalidRequest(f"status {new!r} is none of {', '.join(COHORT_STATUSES)}")
    cohort = await rows.lock(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if not can_change(cohort["status"], new):
        allowed = ", ".join(transitions_from(cohort["status"])) or "nothing"
        raise InvalidTransition(f"a cohort cannot change from {cohort['status']} to {new}: allowed is {allowed}")
    if new == "COMPLETED" and (ahead := await sessions_rows.count_ahead(tx, cohort_id)):
        raise InvalidTransition(f"{cohort['name']} has {ahead} sessions ahead: cancel or move them, then complete it")
    if new == "CANCELLED":
        reason = (reason or "").strip() or "The cohort was cancelled"
    changed = await rows.set_status(tx, cohort_id, new, actor=actor, reason=reason)
    await activity.record(tx, "cohort_status_changed", cohort_id=cohort_id, previous=cohort["status"], status=new)
    changes = {"status": {"from": cohort["status"], "to": new}}
    await tx.audit(
        "cohort_status_changed", entity_type="Cohort", entity_id=cohort_id, changes=changes, reason=reason, actor=actor
    )
    await _follow_up(tx, changed)
    return changed


async def _follow_up(tx: Tx, cohort: Any) -> None:
    cohort_id: UUID = cohort["id"]
    match cohort["status"]:
        case "OPEN":
            await promote_soon(tx, cohort_id)
        case "CONFIRMED":
            await tx.enqueue(mail_confirmation.unique(f"confirmed:{cohort_id}"), cohort_id=cohort_id)
        case "IN_PROGRESS":
            await _close_waitlist(tx, cohort_id, "cohort_started")
            data = {**_dates(cohort), "enrollmentCount": await rows.count_active(tx, cohort_id)}
            data["students"] = await rows.students(tx, cohort_id, STUDENTS_IN_EVENT)
            data["studentsUrl"] = links.students(cohort_id)
            await tx.publish("cohort.started", data, key=f"cohort:{cohort_id}:started")
        case "COMPLETED":
            await tx.enqueue(certify_cohort.unique(f"certify:{cohort_id}"), cohort_id=cohort_id)
            await tx.enqueue(ask_for_exit_survey.unique(f"exit-survey:{cohort_id}"), cohort_id=cohort_id)
            data = {**_dates(cohort), "enrollmentCount": await rows.count_active(tx, cohort_id)}
            data["completedAt"] = cohort["status_changed_at"]
            await tx.publish("cohort.completed", data, key=f"cohort:{cohort_id}:completed")
        case "CANCELLED":
            await resize(tx, pool_key(cohort_id), capacity=0)  # closed: no place can be claimed or sold
            await _close_waitlist(tx, cohort_id, "cohort_cancelled")
            data = {**_dates(cohort), "enrollmentCount": await rows.count_active(tx, cohort_id)}
            data |= {"cancellationReason": cohort["cancellation_reason"], "cancelledAt": cohort["cancelled_at"]}
            await tx.publish("cohort.cancelled", data, key=f"cohort:{cohort_id}:cancelled")
            workflow = cancel_cohort.unique(f"cohort:{cohort_id}").attributes(cohort=str(cohort_id))
            await tx.start_workflow(workflow, cohort_id=cohort_id)
        case _:
            pass


async def _close_waitlist(tx: Tx, cohort_id: UUID, reason: str) -> None:
    await tx.enqueue(close_waitlist.unique(f"close-waitlist:{cohort_id}"), cohort_id=cohort_id, reason=reason)


def _dates(cohort: Any) -> dict[str, Any]:
    return {
        "cohortId": cohort["id"],
        "cohortName": cohort["name"],
        "startDate": cohort["starts_at"],
        "endDate": cohort["ends_at"],
    }
