"""The pure rules: states, expiry, reminders, NPS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onceward_apps.learning.model import (
    COHORT_STATUSES,
    can_change,
    expiry_step,
    is_enrollable,
    nps,
    nps_category,
    pre_cohort_template,
    transitions_from,
)

NOW = datetime(2026, 3, 1, 2, tzinfo=UTC)
ALLOWED = {
    ("DRAFT", "OPEN"),
    ("DRAFT", "CANCELLED"),
    ("OPEN", "CONFIRMED"),
    ("OPEN", "CANCELLED"),
    ("CONFIRMED", "IN_PROGRESS"),
    ("CONFIRMED", "CANCELLED"),
    ("IN_PROGRESS", "COMPLETED"),
    ("IN_PROGRESS", "CANCELLED"),
}


def test_a_cohort_changes_only_as_drawn() -> None:
    possible = {(a, b) for a in COHORT_STATUSES for b in COHORT_STATUSES if can_change(a, b)}
    assert possible == ALLOWED
    assert transitions_from("UNKNOWN") == ()


@pytest.mark.parametrize("status", COHORT_STATUSES)
def test_enrollable_is_open_or_confirmed_and_not_started(status: str) -> None:
    before = is_enrollable(status, NOW + timedelta(seconds=1), NOW)
    assert before is (status in ("OPEN", "CONFIRMED"))
    assert not is_enrollable(status, NOW, NOW)


def test_expiry_applies_an_extension_only_if_it_reaches_beyond_now() -> None:
    past, today, later = NOW - timedelta(days=3), NOW + timedelta(hours=5), NOW + timedelta(days=20)
    assert expiry_step(past, later, NOW) == expiry_step(today, later, NOW) == "apply_extension"
    assert expiry_step(past, past + timedelta(days=1), NOW) == "expire"
    assert expiry_step(past, None, NOW) == expiry_step(NOW, None, NOW) == "expire"
    assert expiry_step(today, None, NOW) == expiry_step(today, past, NOW) == "remind"


@pytest.mark.parametrize(
    ("now", "start", "zone", "template"),
    [
        ("2026-03-01T09:00", "2026-03-09T00:00", "UTC", None),
        ("2026-03-01T09:00", "2026-03-08T23:00", "UTC", "cohort-starting-7days"),
        ("2026-03-01T09:00", "2026-03-03T09:00", "UTC", "cohort-starting-7days"),
        # 24.5 hours before the start, which is the last run before the day of the start.
        ("2026-03-01T09:00", "2026-03-02T09:30", "UTC", "cohort-starting-tomorrow"),
        ("2026-03-01T09:00", "2026-03-01T10:00", "UTC", "cohort-starting-tomorrow"),
        ("2026-03-01T09:00", "2026-03-01T09:00", "UTC", None),
        # The same moment is the day before in Lisbon, and two days before in Auckland.
        ("2026-03-01T09:30", "2026-03-02T20:00", "Europe/Lisbon", "cohort-starting-tomorrow"),
        ("2026-03-01T09:30", "2026-03-02T20:00", "Pacific/Auckland", "cohort-starting-7days"),
    ],
)
def test_the_reminder_depends_on_the_days_left_in_the_zone_of_the_cohort(
    now: str, start: str, zone: str, template: str | None
) -> None:
    starts_at, moment = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (start, now))
    assert pre_cohort_template(starts_at, moment, zone) == template


def test_nps_is_promoters_minus_detractors() -> None:
    assert [nps_category(score) for score in (10, 9, 8, 7, 6, 1)] == ["PROMOTER"] * 2 + ["PASSIVE"] * 2 + [
        "DETRACTOR"
    ] * 2
    assert nps([]) is None
    assert nps([10, 10, 8, 3]) == 25
