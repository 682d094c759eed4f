"""What organizers do with coupons."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act
from onceward.money import Money
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing import coupons
from onceward_apps.ticketing.desk.lists import COUPONS, desk
from onceward_apps.ticketing.store import setup


class CouponForm(BaseModel):
    """What a new coupon needs."""

    code: str = Field(title="Code", max_length=40, description="At least 6 characters, so that nobody guesses it.")
    percent: int | None = Field(None, title="Percent off the price", ge=1, le=100)
    amount: Money | None = Field(None, title="Or an amount", description="For events in this currency.")
    most_uses: int | None = Field(None, title="Uses at most", ge=1)
    valid_until: datetime | None = Field(None, title="Valid until")


class CouponLimits(BaseModel):
    """What can be changed of a coupon."""

    most_uses: int | None = Field(None, title="Uses at most", ge=1)
    valid_until: datetime | None = Field(None, title="Valid until")


@desk.action(COUPONS, "New coupon", on="list", model=CouponForm, roles=("manager",))
async def add_coupon(tx: Tx, act: Act[CouponForm]) -> str:
    given = act.given
    if any(letter.isspace() for letter in given.code.strip()):
        raise ActionRefused(f"the code {given.code!r} has spaces: people could not enter it")
    row = await coupons.add(
        tx,
        given.code,
        percent_bps=None if given.percent is None else given.percent * 100,
        amount_cents=None if given.amount is None else given.amount.amount,
        currency=None if given.amount is None else given.amount.currency,
        most_uses=given.most_uses,
        valid_until=given.valid_until,
        actor=act.by.actor,
    )
    act.id = str(row["id"])
    if given.amount is not None:
        return f"{given.code.upper()} takes {given.amount} off the price of every event in {given.amount.currency}."
    return f"{given.code.upper()} takes {given.percent} % off the price of every event."


async def limits_of(tx: Tx, id: str) -> CouponLimits | None:
    coupon = await setup.lock_coupon(tx, UUID(id))
    if coupon is None:
        return None
    return CouponLimits(most_uses=coupon["most_uses"], valid_until=coupon["valid_until"])


@desk.action(COUPONS, "Change limits", model=CouponLimits, load=limits_of, in_list=True, roles=("manager",))
async def change_coupon(tx: Tx, act: Act[CouponLimits]) -> str:
    await coupons.edit(
        tx, UUID(act.id), most_uses=act.given.most_uses, valid_until=act.given.valid_until, actor=act.by.actor
    )
    return "The coupon is changed. Orders that have it keep their discount."
