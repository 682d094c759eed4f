"""What people do with enrolments and refunds."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Choices
from onceward.money import Money
from onceward.web import ANYTHING
from onceward.web.dashboard import ActionRefused, many
from onceward_apps.learning import certificates, enrollments, users, waitlist
from onceward_apps.learning.desk.listings import ENROLMENTS, STUDENTS, WAITLIST, desk
from onceward_apps.learning.desk.money_lists import REFUNDS
from onceward_apps.learning.desk.words import OTHER_COHORTS
from onceward_apps.learning.refund_requests import refund_enrollment, refund_part, retry_refund

WAITS = "r.status in ('ACTIVE', 'INVITED')"


class MoveForm(BaseModel):
    """Where a student goes."""

    cohort: Annotated[str, Choices(OTHER_COHORTS)] = Field(title="Cohort", description="Those that are open.")


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


class PartForm(BaseModel):
    """How much goes back."""

    amount: Money = Field(title="Amount")


async def load_left(tx: Tx, id: str) -> PartForm | None:
    """Return what was paid and has not gone back: a form that is sent twice is refused, because it has changed."""
    row = await tx.fetchrow(
        "select amount_paid - coalesce(partial_refund, 0) as left, currency from learning.enrollments where id = $1",
        UUID(id),
    )
    return None if row is None else PartForm(amount=Money(row["left"], row["currency"]))


@desk.action(
    ENROLMENTS,
    "Refund a part",
    model=PartForm,
    load=load_left,
    when="r.status in ('ACTIVE', 'EXPIRED') and r.amount_paid > 0",
    reason=True,
    roles=("accountant",),
    causes=ANYTHING,
)
async def refund_a_part(tx: Tx, act: Act[PartForm]) -> str:
    await refund_part(tx, UUID(act.id), act.given.amount, reason=act.reason, actor=act.by.actor)
    return f"{act.given.amount} will be paid back. The student keeps the place."


@desk.action(
    ENROLMENTS, "Move to another cohort", model=MoveForm, when="r.status = 'ACTIVE'", reason=True, causes=("mail",)
)
async def move(tx: Tx, act: Act[MoveForm]) -> str:
    moved = await enrollments.move(tx, UUID(act.id), UUID(act.given.cohort), actor=act.by.actor, reason=act.reason)
    return f"The student is now in {moved['cohort_name']}. What was paid stays; a difference is not charged."


class NameForm(BaseModel):
    """The name of a student as it is on certificates."""

    name: str = Field(title="Name", min_length=1, max_length=200)


async def load_name(tx: Tx, id: str) -> NameForm | None:
    row = await users.find(tx, UUID(id))
    return None if row is None else NameForm.model_construct(name=row["name"])


@desk.action(STUDENTS, "Correct the name", model=NameForm, load=load_name, reason=True, causes=("mail", "call"))
async def correct_name(tx: Tx, act: Act[NameForm]) -> str:
    """Correct the name of a student. Certificates that are valid are issued again."""
    issued = await certificates.correct_name(tx, UUID(act.id), act.given.name, reason=act.reason, actor=act.by.actor)
    if issued:
        act.says(f"{many(issued, 'certificate')} will be issued again, and the student gets the new link.")
    return f"The name is {act.given.name}."


@desk.action(
    ENROLMENTS,
    "Revoke the certificate",
    when="exists (select from learning.certificates k where k.enrollment_id = r.id and k.revoked_at is null)",
    reason=True,
    danger=True,
)
async def revoke(tx: Tx, act: Act[BaseModel]) -> str:
    if not await certificates.revoke_certificate(tx, UUID(act.id), reason=act.reason):
        raise ActionRefused("the student has no valid certificate")
    return "The certificate is revoked. Its page, its badge and the status list say so."


@desk.action(REFUNDS, "Try again", on="rows", when="r.status = 'failed'", roles=("accountant",), causes=ANYTHING)
async def repeat(tx: Tx, act: Act[BaseModel]) -> str:
    attempt = await retry_refund(tx, UUID(act.id), actor=act.by.actor)
    return f"Attempt {attempt} of the refund is on its way."


class PriorityForm(BaseModel):
    """The place in the queue."""

    priority: int = Field(
        0, title="Priority", ge=-1000, le=1000, description="Higher ones are invited first. 0 is usual."
    )


async def load_priority(tx: Tx, id: str) -> PriorityForm | None:
    priority = await tx.fetchval("select priority from learning.waitlist_entries where id = $1", UUID(id))
    return None if priority is None else PriorityForm(priority=priority)


@desk.action(WAITLIST, "Change the priority", model=PriorityForm, load=load_priority, when=WAITS)
async def prioritise(tx: Tx, act: Act[PriorityForm]) -> str:
    await waitlist.set_priority(tx, UUID(act.id), act.given.priority, actor=act.by.actor)
    return f"The priority is {act.given.priority}."


@desk.action(WAITLIST, "Remove", on="rows", when=WAITS, reason=True, danger=True, causes=("mail",))
async def remove(tx: Tx, act: Act[BaseModel]) -> str:
    await waitlist.remove(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    return "The person is off the waitlist and reads the reason. The next in the queue gets the place of an invite."
