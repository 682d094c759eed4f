"""The pure rules: states, payment status, numbers, replies, reminders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward_apps.clinic.model import (
    STATUSES,
    TRIGGERS,
    Payment,
    due_reminder,
    payment_status,
    refund_share,
    transition,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def test_a_cancelled_appointment_never_moves_again() -> None:
    assert {transition("cancelled", trigger) for trigger in TRIGGERS} == {None}
    assert all(transition(status, "cancel") is None for status in STATUSES if status not in ("scheduled", "confirmed"))


def paid(**fields: Any) -> Payment:
    return Payment(**{"status": "succeeded", "amount": 100, "refunded": 0, **fields})


@pytest.mark.parametrize(
    ("payments", "status"),
    [
        ([], "pending"),
        ([paid(status="failed")], "failed"),
        ([paid(status="failed"), paid()], "paid"),
        ([paid(refunded=40)], "partially_refunded"),
        ([paid(refund_pending=True)], "refund_pending"),
        ([paid(refunded=100)], "refunded"),
        ([paid(problem="wrong_amount", amount=90)], "review"),
        ([paid(problem="duplicate"), paid()], "paid"),
    ],
)
def test_the_payment_status_follows_from_the_payments(payments: list[Payment], status: str) -> None:
    assert payment_status(100, payments, link_open=True) == status


def test_refunds_follow_the_policy() -> None:
    policy: dict[str, Any] = {"now": NOW, "full_until": timedelta(hours=24), "late_percent": 30}
    assert refund_share(by="patient", starts_at=NOW + timedelta(hours=24), **policy) == 100
    assert refund_share(by="patient", starts_at=NOW + timedelta(hours=23), **policy) == 30
    assert refund_share(by="clinic", starts_at=NOW, **policy) == 100


@pytest.mark.parametrize(
    ("hours", "booked_days_ago", "due"), [(25, 9, None), (24, 9, 24), (2, 9, 24), (1, 9, 1), (0, 9, None), (3, 0, None)]
)
def test_the_nearest_reminder_is_due(hours: float, booked_days_ago: float, due: int | None) -> None:
    starts_at, booked_at = NOW + timedelta(hours=hours), NOW - timedelta(days=booked_days_ago)
    assert due_reminder(starts_at=starts_at, booked_at=booked_at, now=NOW, hours=(24, 1)) == due
