"""What tests read from the outcome of a call to an external service."""

from __future__ import annotations

from typing import Any

from onceward.services.outcome import Absent, Accepted, ServiceAnswer


def reference_of(outcome: ServiceAnswer | Absent) -> str:
    """Return the id that the service gave to what it created. Any other outcome fails the test."""
    assert isinstance(outcome, Accepted), outcome
    assert outcome.reference is not None, outcome
    return outcome.reference


def detail_of(outcome: ServiceAnswer | Absent) -> dict[str, Any]:
    """Return the object that the service answered with. Any other outcome fails the test."""
    assert isinstance(outcome, Accepted), outcome
    return dict(outcome.detail)
