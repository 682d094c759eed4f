"""The pure rules about completion, attendance and certificates. Percentages are derived from rows and never stored.

A percentage without a denominator is None: a cohort without required items, or without a session that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIN_COMPLETION = 80
"""The percentage of required items that a certificate needs."""

Missing = Literal["cohort_not_completed", "enrollment_ended", "completion", "attendance", "exit_survey"]


def percentage(part: int, whole: int) -> float | None:
    """Return `part` of `whole` in percent, or None if `whole` is 0."""
    return None if whole == 0 else 100 * part / whole


@dataclass(frozen=True, slots=True)
class Standing:
    """What an enrolment has achieved, counted from its rows."""

    items_required: int
    items_done: int
    sessions_ended: int
    sessions_attended: int
    has_live_sessions: bool
    required_attendance: int
    exit_survey_done: bool
    cohort_status: str
    enrollment_status: str

    @property
    def completion(self) -> float | None:
        return percentage(self.items_done, self.items_required)

    @property
    def attendance(self) -> float | None:
        """The percentage of ended sessions that were attended; None if the cohort has no live sessions or none has
        ended."""
        return percentage(self.sessions_attended, self.sessions_ended) if self.has_live_sessions else None

    @property
    def has_completed_enough(self) -> bool:
        # Counted in whole numbers: 80 % of 5 items is exactly 4, which floating point could miss.
        return self.items_required > 0 and 100 * self.items_done >= MIN_COMPLETION * self.items_required

    @property
    def has_attended_enough(self) -> bool:
        if not self.has_live_sessions:
            return True
        return (
            self.sessions_ended > 0 and 100 * self.sessions_attended >= self.required_attendance * self.sessions_ended
        )

    def missing(self) -> tuple[Missing, ...]:
        """Return what is missing for a certificate. Nothing missing means that a certificate is issued."""
        conditions: tuple[tuple[Missing, bool], ...] = (
            ("cohort_not_completed", self.cohort_status == "COMPLETED"),
            ("enrollment_ended", self.enrollment_status in ("ACTIVE", "EXPIRED")),
            ("completion", self.has_completed_enough),
            ("attendance", self.has_attended_enough),
            ("exit_survey", self.exit_survey_done),
        )
        return tuple(name for name, holds in conditions if not holds)

    @property
    def is_eligible(self) -> bool:
        return not self.missing()

    @property
    def is_on_course(self) -> bool:
        """Whether completion and attendance are enough so far. The mail after the exit survey says this."""
        return self.has_completed_enough and self.has_attended_enough
