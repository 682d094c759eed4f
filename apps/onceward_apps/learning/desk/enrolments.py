"""What people do with enrolments and refunds."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act
from onceward.web import ANYTHING
from onceward.web.dashboard import ActionRefused, many
from onceward_apps.learning import enrollments
from onceward_apps.learning.desk.listings import ENROLMENTS, REFUNDS, desk
from onceward_apps.learning.refund_requests import refund_enrollment, retry_refund


class MoveForm(BaseModel):
    """Where a student goes."""

    cohort: str = Field(title="Name of the cohort")


@desk.action(
    ENROLMENTS,
    "Refund",
    on="rows",
    when="r.status in ('ACTIVE', 'EXPIRED')",
    reason=True,
    danger=True,
    roles=("accountant",),
    causes=ANYTHING,
)
async def refund(tx: Tx, act: Act[BaseModel]) -> str:
    requested = await refund_enrollment(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    return f"The student loses the place, and {many(len(requested), 'payment')} will be paid back."


@desk.action(
    ENROLMENTS, "Move to another cohort", model=MoveForm, when="r.status = 'ACTIVE'", reason=True, causes=("mail",)
)
async def move(tx: Tx, act: Act[MoveForm]) -> str:
    found = await tx.fetch("select id, name from learning.cohorts where lower(name) = lower($1)", act.given.cohort)
    if len(found) != 1:
        raise ActionRefused(f"{len(found)} cohorts have the name {act.given.cohort[:80]!r}: enter the name of one")
    await enrollments.move(tx, UUID(act.id), found[0]["id"], actor=act.by.actor, reason=act.reason)
    return f"The student is now in {found[0]['name']}. What was paid stays; a difference is not charged."


@desk.action(REFUNDS, "Try again", on="rows", when="r.status = 'failed'", roles=("accountant",), causes=ANYTHING)
async def repeat(tx: Tx, act: Act[BaseModel]) -> str:
    attempt = await retry_refund(tx, UUID(act.id), actor=act.by.actor)
    return f"Attempt {attempt} of the refund is on its way."
