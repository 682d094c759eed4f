"""The pure rules: states, payment status, numbers, replies, reminders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward.money import Money
from onceward.payments import Payment
from onceward_apps.clinic.model import (
    STATUSES,
    TRIGGERS,
    due_reminder,
    payment_status,
    refund_share,
    transition,
)

ID = UUID(int=1)
NOW = datetime(2020, 11, 16, 12, 0, tzinfo=UTC)


def test_a_cancelled_appointment_moves_only_when_the_staff_restores_it() -> None:
    assert {transition("cancelled", trigger) for trigger in TRIGGERS if trigger != "restore"} == {None}
    assert [status for status in STATUSES if transition(status, "restore")] == ["cancelled"]
    assert all(transition(status, "cancel") is None for status in STATUSES if status not in ("scheduled", "confirmed"))


def paid(**fields: Any) -> Payment:
    known = {"id": ID, "organization": ID, "account": "clinic", "service": "stripe", "subject_type": "appointment"}
    known |= {
        "subject_id": "1",
        "title": "",
        "amount": Money(100, "SGD"),
        "received": 100,
        "refunded": 0,
        "withheld": 0,
    }
    known |= {"is_superseded": False, "charge": None, "plan_id": None, "instalment": None, "data": {}, "paid_at": None}
    return Payment(**{**known, "created_at": NOW, "status": "paid", "decision": "accepted", **fields})


def unpaid(status: str, **fields: Any) -> Payment:
    return paid(status=status, decision=None, received=0, **fields)


@pytest.mark.parametrize(
    ("payments", "status"),
    [
        ([], "unpaid"),
        ([unpaid("open")], "pending"),
        ([unpaid("open", failure="card_declined")], "failed"),
        ([unpaid("processing", failure="card_declined")], "pending"),
        ([unpaid("failed", failure="card_declined")], "failed"),
        ([unpaid("expired")], "unpaid"),
        ([unpaid("expired", failure="card_declined"), paid()], "paid"),
        ([paid(refunded=40)], "partially_refunded"),
        ([paid(refunded=100)], "refunded"),
        ([paid(received=90)], "review"),
        ([paid(status="disputed", withheld=100)], "disputed"),
        ([paid(status="lost", withheld=100)], "charged_back"),
        ([paid(decision="returned"), paid()], "paid"),
        ([paid(decision="returned")], "refund_pending"),
        ([paid(decision="returned", refunded=100)], "refunded"),
        ([paid(decision="returned", refunded=100), unpaid("open")], "pending"),
        ([paid(refunded=100), unpaid("open")], "pending"),
        ([paid(refunded=100), unpaid("expired")], "refunded"),
        ([paid(refunded=100), paid()], "paid"),
    ],
)
def test_the_payment_status_follows_from_the_payments(payments: list[Payment], status: str) -> None:
    assert payment_status(100, payments, ()) == status


def test_a_refund_without_an_end_shows() -> None:
    assert payment_status(100, [paid()], {ID}) == "refund_pending"
    assert payment_status(100, [paid(refunded=100)], {ID}) == "refunded"
    assert payment_status(0, [], ()) == "not_required"


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
