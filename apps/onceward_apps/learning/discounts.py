"""Discount codes: a percentage, or an amount in one currency, for one cohort or for all, with or without a limit.

A use is held with the payment page and counted when it is paid, in a capacity pool, so that a code is not used more
often than it may be. Who paid the lower price on a page that we showed is enrolled in any case.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, convert, extend, look, open_pool, release, resize
from onceward.integrations.stripe import AMOUNTS
from onceward.money import Money
from onceward_apps.learning.errors import DiscountInvalid, InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import cohorts
from onceward_apps.learning.store import discounts as rows

SHORTEST, LONGEST = 6, 40


def pool_of(discount_id: UUID) -> str:
    return f"discount:{discount_id}"


def normal(code: str) -> str:
    """Return a code as it is stored: people type small letters and spaces."""
    return "".join(code.split()).upper()


async def add(
    tx: Tx,
    code: str,
    *,
    percent: int | None = None,
    amount: Money | None = None,
    cohort_id: UUID | None = None,
    most_uses: int | None = None,
    valid_until: datetime | None = None,
    actor: str,
) -> Any:
    """Add a code that lowers prices by a percentage or by an amount."""
    code = normal(code)
    if not SHORTEST <= len(code) <= LONGEST or not code.replace("-", "").isalnum() or not code.isascii():
        raise InvalidRequest(f"code {code[:LONGEST]!r}: use {SHORTEST} to {LONGEST} letters, digits and hyphens")
    if (percent is None) == (amount is None):
        raise InvalidRequest(f"code {code!r}: give either a percentage or an amount")
    if percent is not None and not 1 <= percent <= 99:
        raise InvalidRequest(
            f"code {code!r}: percent is {percent}, 1 to 99 are allowed; who pays nothing is enrolled by hand"
        )
    if amount is not None and amount.amount <= 0:
        raise InvalidRequest(f"code {code!r}: amount is {amount}, it must be more than 0")
    cohort = None if cohort_id is None else await cohorts.find(tx, cohort_id)
    if cohort_id is not None and cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if cohort is not None and amount is not None and amount.currency != cohort["currency"]:
        raise InvalidRequest(f"code {code!r}: the cohort is sold in {cohort['currency']}, not in {amount.currency}")
    money = (None, None) if amount is None else (amount.amount, amount.currency)
    row = await rows.add(tx, code, cohort_id, percent, *money, most_uses, valid_until)
    if row is None:
        raise LearningError(f"there is a code {code!r} already: choose another one")
    await open_pool(tx, pool_of(row["id"]), capacity=most_uses)
    await tx.audit("discount_added", entity_type="Discount", entity_id=row["id"], changes={"code": code}, actor=actor)
    return row


async def change(tx: Tx, discount_id: UUID, *, most_uses: int | None, valid_until: datetime | None, actor: str) -> None:
    """Change how often and until when a code can be used. Who has paid with it keeps the price."""
    known = await rows.lock(tx, discount_id)
    if known is None:
        raise NotFound(f"there is no discount code {discount_id}")
    if (known["most_uses"], known["valid_until"]) == (most_uses, valid_until):
        return
    await resize(tx, pool_of(discount_id), capacity=most_uses)
    await rows.change(tx, discount_id, most_uses, valid_until)
    changes = {"most_uses": {"from": known["most_uses"], "to": most_uses}}
    await tx.audit("discount_changed", entity_type="Discount", entity_id=discount_id, changes=changes, actor=actor)


async def preview(tx: Tx, cohort_id: UUID, code: str, *, instalments: bool = False) -> Money:
    """Return the price of a cohort with a code."""
    cohort = await cohorts.find(tx, cohort_id)
    price = _price(cohort, instalments=instalments)
    return price_with(await find(tx, code, cohort, instalments=instalments), price)


async def find(tx: Tx, code: str, cohort: Any, *, instalments: bool = False) -> Any:
    """Return a code that counts for a cohort (a row) now. `DiscountInvalid` does not say which codes exist."""
    row = await rows.by_code(tx, normal(code)[:LONGEST].replace("\x00", ""))
    if row is None or row["is_over"] or row["cohort_id"] not in (None, cohort["id"]):
        raise _not_valid()
    if row["amount"] is not None and instalments:
        raise DiscountInvalid("this code counts for paying at once, not for instalments")
    if row["currency"] not in (None, cohort["currency"]):
        raise _not_valid()
    if price_with(row, _price(cohort, instalments=instalments)).amount <= 0:
        raise _not_valid()
    return row


def price_with(discount: Any, price: Money) -> Money:
    """Return a price with a discount (a row, or None), rounded down to an amount that the payment service takes."""
    if discount is None:
        return price
    if discount["percent"] is None:
        lower = max(0, price.amount - discount["amount"])
    else:
        lower = price.amount * (100 - discount["percent"]) // 100
    return Money(lower - lower % AMOUNTS.step(price.currency), price.currency)


def _price(cohort: Any, *, instalments: bool) -> Money:
    return Money(cohort["instalment_price" if instalments else "price"], cohort["currency"])


async def attach(tx: Tx, checkout: Any, discount: Any, *, until: datetime, may_hold: bool) -> None:
    """Hold a use of a code (a row, or None) for a checkout as long as its page, instead of the code that it had."""
    held, known = checkout["discount_claim_id"], checkout["discount_id"]
    if discount is not None and known == discount["id"] and held is not None:
        with suppress(CapacityRefused):  # the hold has expired, and another person has the last use
            await extend(tx, [held], until=until)
            return
    elif held is not None:
        await release(tx, [held])
    if discount is None:
        if known is not None:
            await rows.attach(tx, checkout["id"], None, None)
        return
    pool, claimed = pool_of(discount["id"]), None
    if may_hold:
        try:
            claimed = (await claim(tx, [Want(pool)], holder=f"checkout:{checkout['id']}", until=until)).ids[0]
        except CapacityRefused as refused:
            raise _used_up() from refused
    elif (await look(tx, pool)).free == 0:
        raise _used_up()
    await rows.attach(tx, checkout["id"], discount["id"], claimed)


async def use(tx: Tx, checkout: Any) -> None:
    """Count the use of the code of a checkout that is paid. A hold that expired does not change the price."""
    if checkout["discount_id"] is None:
        return
    with suppress(CapacityRefused):
        if checkout["discount_claim_id"] is not None:
            await convert(tx, [checkout["discount_claim_id"]])
        else:
            wants = [Want(pool_of(checkout["discount_id"]))]
            claimed = await claim(tx, wants, holder=f"checkout:{checkout['id']}", until=None)
            await rows.attach(tx, checkout["id"], checkout["discount_id"], claimed.ids[0])


async def give_back(tx: Tx, checkout: Any) -> None:
    """Free the use that a checkout held, which is not paid."""
    if checkout["discount_claim_id"] is not None:
        await release(tx, [checkout["discount_claim_id"]])


def _not_valid() -> DiscountInvalid:
    return DiscountInvalid("this code is not valid for this course")


def _used_up() -> DiscountInvalid:
    return DiscountInvalid("this code was used as often as it can be")
