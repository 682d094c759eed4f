"""The box office: the staff sells for cash or a bank transfer, or gives tickets away. Lines of bank statements pay
orders.

Everything is a checkout and a payment like any other: the payment is one by hand, which the staff records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward.money import Money
from onceward.payments import PaymentPending
from onceward_apps.ticketing import baskets, notices, sale_terms, sales
from onceward_apps.ticketing.app import ACCOUNTS, CHECKOUT
from onceward_apps.ticketing.codes import new_basket, new_reference, references_in
from onceward_apps.ticketing.errors import CheckoutClosed, Invalid, NotFound, NotMatched, NotPayable
from onceward_apps.ticketing.store import baskets as basket_rows
from onceward_apps.ticketing.store import setup, shops, transfers, views

How = Literal["cash", "transfer", "complimentary"]
MOST_LINES = 1000
WHILE_SELLING = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    """What the staff sells. `types` is the name of the ticket type of each section, if not its own price."""

    how: How
    seats: Sequence[str] = ()
    places: Mapping[UUID, int] = field(default_factory=dict[UUID, int])
    types: Mapping[UUID, str] = field(default_factory=dict[UUID, str])
    email: str = ""
    name: str = ""
    locale: str | None = None
    coupon: str | None = None


async def sell(tx: Tx, event_id: UUID, sale: Sale, *, reason: str = "", actor: str) -> Any:
    """Sell at the box office, and return the order.

    Windows, presale codes, the waitlist and limits do not count here. For cash and for free the tickets are issued at
    once; a bank transfer waits for its line in the bank's statement.
    """
    event = await setup.event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if sale.how == "complimentary" and not reason.strip():
        raise Invalid("reason is empty: say for whom or why the tickets cost nothing")
    shop = await shops.of(tx)
    lasts = timedelta(days=shop["transfer_days"]) if sale.how == "transfer" else WHILE_SELLING
    basket = new_basket()
    held = await baskets.hold(tx, event_id, basket, labels=sale.seats, places=sale.places, offer=lasts, by_staff=True)
    await _choose_types(tx, event_id, basket, held, sale.types)
    buyer = baskets.Buyer(email=sale.email or notices.NO_EMAIL, name=sale.name, locale=sale.locale)
    staff = baskets.Staff(is_free=sale.how == "complimentary", lasts=lasts)
    checkout = await baskets.start_checkout(tx, event_id, basket, buyer, coupon=sale.coupon, staff=staff)
    await tx.audit(
        "box_office_sale",
        entity_type="Checkout",
        entity_id=checkout["id"],
        changes={"how": sale.how, "total_cents": checkout["total_cents"], "tickets": len(held.holds)},
        reason=reason or None,
        actor=actor,
    )
    if checkout["total_cents"] == 0:
        await sales.sell_free(tx, checkout["id"])
    elif sale.how == "cash":
        await _receive(tx, checkout, reference="cash", at_least=True)
    else:
        await transfers.set_reference(tx, checkout["id"], new_reference())
        await _payment_of(tx, checkout)
    return await views.order(tx, checkout["id"])


async def _choose_types(tx: Tx, event_id: UUID, basket: str, held: baskets.Held, types: Mapping[UUID, str]) -> None:
    if not types:
        return
    known = {(row["section_id"], row["name"]): row["id"] for row in await sale_terms.types_of(tx, event_id)}
    for section, name in types.items():
        if (section, name) not in known:
            raise Invalid(f"section {section} has no ticket type {name!r}")
    chosen: dict[UUID, UUID | None] = {
        row["id"]: known[row["section_id"], types[row["section_id"]]]
        for row in held.holds
        if row["section_id"] in types
    }
    await baskets.choose_types(tx, event_id, basket, chosen, code=None)


async def _payment_of(tx: Tx, checkout: Any) -> UUID:
    """Return the payment by hand of a checkout, which is opened if there is none."""
    order = await views.order(tx, checkout["id"])
    left_s = (order["expires_at"] - order["now"]).total_seconds()
    try:
        page = await tx.payments.open(
            CHECKOUT,
            checkout["id"],
            amount=Money(order["total_cents"], order["currency"]),
            title=order["event_name"],
            account=ACCOUNTS["by_hand"],
            success_url=notices.order_url(tx.engine, order),
            expires=max(60.0, left_s),
            email=None if order["email"] == notices.NO_EMAIL else order["email"],
            locale=order["locale"],
        )
    except PaymentPending as error:
        raise NotPayable("the payment of this order is being processed: if it fails, take the money then") from error
    return page.payment_id


async def _receive(
    tx: Tx, checkout: Any, *, reference: str, amount_cents: int | None = None, at_least: bool = False
) -> bool:
    """Record money for an order. Return whether it bought the tickets; otherwise it goes back to the buyer.

    `at_least`: raise an error instead, so that the staff at the counter does not take the money.
    """
    by_hand = [each for each in await tx.payments.of(CHECKOUT, checkout["id"]) if each.service == "by_hand"]
    payment_id = by_hand[-1].id if by_hand else await _payment_of(tx, checkout)
    cents = checkout["total_cents"] if amount_cents is None else amount_cents
    amount = Money(cents, checkout["currency"])
    # If the buyer chose another way meanwhile, the machine closes that page after the sale.
    paid = await tx.payments.record(payment_id, amount=amount, reference=reference)
    order = await basket_rows.checkout(tx, checkout["id"])
    is_sold = order["status"] == "completed" and order["payment_reference"] == paid.charge
    if not is_sold and at_least:
        raise CheckoutClosed(f"the order is {order['status']}: {amount} cannot be taken for it")
    return is_sold


async def take_cash(tx: Tx, checkout_id: UUID, *, actor: str) -> None:
    """Take the money for an order that is not paid yet, for example one that waited for a bank transfer."""
    checkout = await basket_rows.checkout(tx, checkout_id, lock=True)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["status"] not in ("started", "failed"):
        raise CheckoutClosed(f"this order is {checkout['status']}: there is nothing to pay")
    await _receive(tx, checkout, reference="cash", at_least=True)
    await tx.audit("cash_taken", entity_type="Checkout", entity_id=checkout_id, actor=actor)


# -- bank transfers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """A line of a bank statement: money that came. `line` is its id at the bank, `memo` what the sender wrote."""

    line: str
    amount_cents: int
    currency: str
    memo: str = ""


@dataclass(frozen=True, slots=True)
class Matched:
    """The lines of a statement as they are recorded. `fresh` counts those that were not known."""

    rows: list[Any]
    fresh: int


async def match(tx: Tx, lines: Sequence[StatementLine], *, actor: str) -> Matched:
    """Record lines of a bank statement, and pay the orders that they name. A line that is known changes nothing.

    What names no order stays `unmatched`, until a person assigns or dismisses it.
    """
    if len(lines) > MOST_LINES:
        raise Invalid(f"lines has {len(lines)} lines: send at most {MOST_LINES} at once")
    done: list[Any] = []
    fresh = 0
    for each in lines:
        row = await transfers.add(tx, each.line.strip(), each.amount_cents, each.currency, each.memo[:500])
        if row is None:
            done.append(_known(await transfers.by_line(tx, each.line.strip()), each))
            continue
        fresh += 1
        checkout_id = await transfers.by_reference(tx, references_in(each.memo))
        if checkout_id is not None:
            with suppress(NotMatched, NotPayable):  # another currency, or free: a person decides
                row = await _pay(tx, row, checkout_id)
        done.append(row)
    if not fresh:
        return Matched(done, 0)
    changes = {"lines": fresh, "sold": sum(row["outcome"] == "sold" for row in done)}
    await tx.audit("transfers_recorded", entity_type="Transfer", entity_id=None, changes=changes, actor=actor)
    return Matched(done, fresh)


def _known(row: Any, line: StatementLine) -> Any:
    """Return a line that is recorded. Another line with its id would be lost, so that is refused.

    The text of a recorded line is empty after an erasure.
    """
    same = (row["amount_cents"], row["currency"]) == (line.amount_cents, line.currency)
    if not same or row["memo"] not in ("", line.memo[:500]):
        raise Invalid(
            f"line {line.line!r} was recorded on {row['created_at']:%Y-%m-%d} as"
            f" {Money(row['amount_cents'], row['currency'])} {row['memo'][:60]!r}, and is another one now:"
            " give each line an id that the bank uses once"
        )
    return row


async def assign(tx: Tx, transfer_id: UUID, checkout_id: UUID, *, actor: str) -> Any:
    """Say which order a transfer pays."""
    row = await _waiting(tx, transfer_id)
    paid = await _pay(tx, row, checkout_id)
    changes = {"order": str(checkout_id), "outcome": paid["outcome"]}
    await tx.audit("transfer_assigned", entity_type="Transfer", entity_id=transfer_id, changes=changes, actor=actor)
    return paid


async def dismiss(tx: Tx, transfer_id: UUID, *, reason: str, actor: str) -> None:
    """Say that a transfer pays no order."""
    await _waiting(tx, transfer_id)
    await transfers.settle(tx, transfer_id, "dismissed", None)
    await tx.audit("transfer_dismissed", entity_type="Transfer", entity_id=transfer_id, reason=reason, actor=actor)


async def _waiting(tx: Tx, transfer_id: UUID) -> Any:
    row = await transfers.lock(tx, transfer_id)
    if row is None:
        raise NotFound(f"there is no transfer {transfer_id}")
    if row["outcome"] != "unmatched":
        raise NotMatched(f"the transfer {row['line']} is {row['outcome']} already")
    return row


async def _pay(tx: Tx, row: Any, checkout_id: UUID) -> Any:
    checkout = await basket_rows.checkout(tx, checkout_id, lock=True)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["total_cents"] == 0:
        raise NotMatched("this order costs nothing: choose another one, or dismiss the transfer")
    if checkout["currency"] != row["currency"]:
        raise NotMatched(f"the order is in {checkout['currency']}, and the transfer in {row['currency']}")
    is_sold = await _receive(tx, checkout, reference=row["line"], amount_cents=row["amount_cents"])
    return await transfers.settle(tx, row["id"], "sold" if is_sold else "returned", checkout_id)
