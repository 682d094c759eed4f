"""SQL of the demo."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx


async def random_enrollment(tx: Tx, cohort_id: UUID) -> Any:
    """Return any active enrolment of a cohort."""
    return await tx.fetchrow(
        "select id, user_id from learning.enrollments where cohort_id = $1 and status = 'ACTIVE'"
        " order by random() limit 1",
        cohort_id,
    )
