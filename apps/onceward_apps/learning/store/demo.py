"""SQL of the demo."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx


async def random_enrollment(tx: Tx, cohort_id: UUID) -> Any:
    """Return any active enrolment of a cohort."""
    return await tx.fetchrow(
        "select id, user_id from learning.enrollments where cohort_id = $1 and status = 'ACTIVE' order by random() limit 1",
        cohort_id,
    )


async def newest_mails(tx: Tx, limit: int) -> list[Any]:
    return await tx.fetch(
        "select id, template, locale, data, status, address from onceward.messages where channel = 'email'"
        " order by created_at desc, id desc limit $1",
        limit,
    )
