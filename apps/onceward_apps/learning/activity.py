"""The log of what happened, which the dashboard shows. It has ids and short facts, no addresses and no payment data."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.store import activity


async def record(
    tx: Tx,
    kind: str,
    *,
    cohort_id: UUID | None = None,
    enrollment_id: UUID | None = None,
    user_id: UUID | None = None,
    **details: Any,
) -> None:
    await activity.add(tx, kind, cohort_id=cohort_id, enrollment_id=enrollment_id, user_id=user_id, details=details)
