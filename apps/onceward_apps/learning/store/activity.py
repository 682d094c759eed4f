"""SQL for the activity log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into learning.activity_log (kind, cohort_id, enrollment_id, user_id, details) values ($1, $2, $3, $4, $5)
"""


async def add(
    tx: Tx,
    kind: str,
    *,
    cohort_id: UUID | None,
    enrollment_id: UUID | None,
    user_id: UUID | None,
    details: Mapping[str, Any],
) -> None:
    await tx.execute(ADD, kind, cohort_id, enrollment_id, user_id, dict(details))
