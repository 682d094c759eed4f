"""The pure rules of the learning platform: states, priorities, refunds, dates. No database, no clock.

Cohort:     DRAFT ──▶ OPEN ──▶ CONFIRMED ──▶ IN_PROGRESS ──▶ COMPLETED;  all but the last ──▶ CANCELLED
Enrolment:  ACTIVE ──▶ EXPIRED ──(payment, extension)──▶ ACTIVE
            ACTIVE | EXPIRED ──▶ REFUND_PENDING ──▶ REFUNDED (refund confirmed; also directly)
Waitlist:   ACTIVE ◀──▶ INVITED ──▶ ENROLLED;  ACTIVE | INVITED ──▶ REMOVED
Invite:     SENT ──▶ ACCEPTED | EXPIRED | REVOKED
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, get_args
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

CohortStatus = Literal["DRAFT", "OPEN", "CONFIRMED", "IN_PROGRESS", "COMPLETED", "CANCELLED"]
EnrollmentStatus = Literal["ACTIVE", "REFUND_PENDING", "REFUNDED", "EXPIRED"]
NpsCategory = Literal["PROMOTER", "PASSIVE", "DETRACTOR"]
Refusal = Literal[
    "cohort_full",
    "cohort_not_enrollable",
    "already_enrolled",
    "checkout_replaced",
    "amount_mismatch",
    "enrollment_refunded",
    "user_erased",
]

TRANSITIONS: dict[CohortStatus, tuple[CohortStatus, ...]] = {
    "DRAFT": ("OPEN", "CANCELLED"),
    "OPEN": ("CONFIRMED", "CANCELLED"),
    "CONFIRMED": ("IN_PROGRESS", "CANCELLED"),
    "IN_PROGRESS": ("COMPLETED", "CANCELLED"),
    "COMPLETED": (),
    "CANCELLED": (),
}
COHORT_STATUSES: tuple[CohortStatus, ...] = get_args(CohortStatus)
REFUNDED_PRIORITY = 10
"""The priority on the waitlist of a person whose payment was refunded because the cohort was full."""


def transitions_from(status: str) -> tuple[CohortStatus, ...]:
    """Return the statuses that a cohort can change to."""
    return next((targets for name, targets in TRANSITIONS.items() if name == status), ())


def can_change(status: str, new: str) -> bool:
    return new in transitions_from(status)


def is_enrollable(status: str, starts_at: datetime, now: datetime) -> bool:
    """Whether people can enrol: the cohort is OPEN or CONFIRMED and has not started."""
    return status in ("OPEN", "CONFIRMED") and now < starts_at


def access_end(ends_at: datetime, access_days: int) -> datetime:
    return ends_at + timedelta(days=access_days)


@cache
def time_zones() -> frozenset[str]:
    """Return the names of all time zones. Python searches their files at each call, which takes tens of
    milliseconds."""
    return frozenset(available_timezones())


def known_zone(name: str | None) -> str | None:
    """Return the name of a time zone, or None if it names none. People write all sorts of things into a survey."""
    return name if name is not None and name in time_zones() else None


def start_of_next_day(now: datetime) -> datetime:
    """Return the next midnight, UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


Expiry = Literal["apply_extension", "expire", "remind"]


def expiry_step(access_expires_at: datetime, extends_until: datetime | None, now: datetime) -> Expiry:
    """Return what the daily check does with an enrolment whose access ends before the next check.

    An extension counts only if it reaches beyond now: one that has already passed must not prolong the access.
    """
    if extends_until is not None and extends_until > now and extends_until > access_expires_at:
        return "apply_extension"
    return "expire" if access_expires_at <= now else "remind"


@dataclass(frozen=True, slots=True)
class Tuition:
    """What was paid for an enrolment, and how much of it went back by refunds and lost disputes."""

    paid: int
    back: int

    @property
    def is_back(self) -> bool:
        return self.back >= self.paid


def pre_cohort_template(starts_at: datetime, now: datetime, zone: str) -> str | None:
    """Return the reminder that is due for an enrolment, or None.

    Days are days in the zone of the cohort: a start at 09:30 is announced on the day before it, not half an hour
    earlier. From that day on only the 1-day mail is sent: who enrols late does not get both.
    """
    local = ZoneInfo(zone)
    days = (starts_at.astimezone(local).date() - now.astimezone(local).date()).days
    if starts_at <= now or days > 7:
        return None
    return "cohort-starting-tomorrow" if days <= 1 else "cohort-starting-7days"


def nps_category(score: int) -> NpsCategory:
    if score >= 9:
        return "PROMOTER"
    return "PASSIVE" if score >= 7 else "DETRACTOR"


def nps(scores: list[int]) -> int | None:
    """Return the percentage of promoters minus that of detractors, or None without scores."""
    if not scores:
        return None
    kinds = [nps_category(score) for score in scores]
    return round(100 * (kinds.count("PROMOTER") - kinds.count("DETRACTOR")) / len(kinds))


def pool_key(cohort_id: UUID) -> str:
    """Return the key of the cohort's capacity pool."""
    return f"cohort:{cohort_id}"


def as_uuid(text: str | None) -> UUID | None:
    """Return the id in a webhook's metadata, or None if it is missing or not an id."""
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
