"""What people do with discount codes and the seats of companies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Choices
from onceward.money import Money
from onceward.web.dashboard import many
from onceward_apps.learning import discounts, seats
from onceward_apps.learning.desk.listings import COHORTS, SEATS, desk
from onceward_apps.learning.desk.money_lists import DISCOUNTS
from onceward_apps.learning.desk.words import COHORTS_TO_SELL
from onceward_apps.learning.store import discounts as rows


class DiscountForm(BaseModel):
    """A code that lowers prices."""

    code: str = Field(title="Code", min_length=6, max_length=40, description="People type it: SPRING-2031.")
    percent: int | None = Field(None, title="Lower by, %", ge=1, le=99)
    amount: Money | None = Field(None, title="Or by an amount")
    cohort: Annotated[str, Choices(COHORTS_TO_SELL)] = Field(
        "", title="Only for the cohort", description="Empty: for every cohort."
    )
    most_uses: int | None = Field(None, title="How often", ge=1, le=1_000_000, description="Empty: without a limit.")
    valid_until: datetime | None = Field(None, title="Until")


class LimitsForm(BaseModel):
    """How often and until when a code can be used."""

    most_uses: int | None = Field(None, title="How often", ge=1, le=1_000_000, description="Empty: without a limit.")
    valid_until: datetime | None = Field(None, title="Until")


class SeatsForm(BaseModel):
    """The seats of a company."""

    company: str = Field(title="Company", min_length=1, max_length=200)
    number: int = Field(title="Seats", ge=1, le=seats.MOST)
    contact_email: str = Field(title="Contact", max_length=320, description="Gets the link for the colleagues.")
    email_domain: str = Field("", title="Only for addresses at", max_length=253, description="example.org, or empty.")
    reference: str = Field("", title="Reference", max_length=200, description="The number of your invoice.")


@desk.action(DISCOUNTS, "New code", on="list", model=DiscountForm, roles=("accountant",))
async def add_code(tx: Tx, act: Act[DiscountForm]) -> str:
    given = act.given
    amount = given.amount if given.amount is not None and given.amount.amount > 0 else None
    row = await discounts.add(
        tx,
        given.code,
        percent=given.percent,
        amount=amount,
        cohort_id=UUID(given.cohort) if given.cohort else None,
        most_uses=given.most_uses,
        valid_until=given.valid_until,
        actor=act.by.actor,
    )
    act.id = str(row["id"])
    return f"People can use {row['code']} now."


async def load_limits(tx: Tx, id: str) -> LimitsForm | None:
    row = await rows.find(tx, UUID(id))
    return None if row is None else LimitsForm(most_uses=row["most_uses"], valid_until=row["valid_until"])


@desk.action(DISCOUNTS, "Change", model=LimitsForm, load=load_limits, roles=("accountant",))
async def change_code(tx: Tx, act: Act[LimitsForm]) -> str:
    given = act.given
    await discounts.change(
        tx, UUID(act.id), most_uses=given.most_uses, valid_until=given.valid_until, actor=act.by.actor
    )
    return "The code was changed. Who has paid with it keeps the price."


@desk.action(
    COHORTS,
    "Seats for a company",
    model=SeatsForm,
    when="r.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS')",
    causes=("mail",),
)
async def reserve_seats(tx: Tx, act: Act[SeatsForm]) -> str:
    """Reserve places for a company that pays by invoice."""
    block = await seats.reserve(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    act.says(f"{block['contact_email']} will get the link for the colleagues.")
    return f"{block['company']} has {many(act.given.number, 'seat')}."


@desk.action(SEATS, "Send the link again", when="r.ended_at is null", causes=("mail",))
async def send_seats_link(tx: Tx, act: Act[BaseModel]) -> str:
    await seats.send_again(tx, UUID(act.id), actor=act.by.actor)
    return "The contact gets a new link. The older one does not work any more."


@desk.action(SEATS, "End", when="r.ended_at is null", reason=True, danger=True, causes=("mail",))
async def end_seats(tx: Tx, act: Act[BaseModel]) -> str:
    freed = await seats.end(tx, UUID(act.id), actor=act.by.actor)
    return f"{many(freed, 'free seat')} given back. Who has a seat keeps it."
