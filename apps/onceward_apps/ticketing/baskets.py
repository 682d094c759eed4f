"""Actions of a buyer before paying: hold seats, release them, start a checkout, abandon it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, extend, release
from onceward_apps.ticketing import sale_terms
from onceward_apps.ticketing.app import CHECKOUT
from onceward_apps.ticketing.codes import basket_name
from onceward_apps.ticketing.currencies import step
from onceward_apps.ticketing.errors import (
    BadCoupon,
    CheckoutClosed,
    NotFound,
    NothingHeld,
    NotOnSale,
    SeatTaken,
    TooMany,
)
from onceward_apps.ticketing.model import Coupon, Policy, Quote, quote
from onceward_apps.ticketing.store import baskets, coupons, setup

UNPAID = ("started", "failed", "expired")
"""States from which a checkout can end unpaid."""
SHORTEST_CHECKOUT = timedelta(seconds=10)
ENDED_ALREADY = "OW003"
"""What PostgreSQL reports for a hold whose end has passed."""


@dataclass(frozen=True, slots=True)
class Held:
    """The holds of a basket, and the time when the first of them ends."""

    holds: tuple[Any, ...]
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buyer:
    """The person that an order is for."""

    email: str
    name: str = ""
    user_id: str | None = None
    locale: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staff:
    """A checkout that the staff starts: no limit per customer, and no questions unless they are answered."""

    is_free: bool = False
    """Whether the tickets cost nothing."""
    lasts: timedelta | None = None
    """How long the places wait for the money; None: as for everybody."""


async def hold(
    tx: Tx,
    event_id: UUID,
    basket: str,
    *,
    seats: Sequence[UUID] = (),
    labels: Sequence[str] = (),
    places: Mapping[UUID, int] | None = None,
    code: str = "",
    offer: timedelta | None = None,
    by_staff: bool = False,
) -> Held:
    """Hold all of these seats and places for this basket, or none, for the event's `hold_s` seconds.

    While somebody waits for the event, only an offer of the waitlist holds places that everybody may buy, for the time
    of the offer. A presale `code` opens what is hidden or not on sale yet. The staff (`by_staff`, with an offer) also
    sells while the sale is closed.

    Seats are given by id or by label. `places` gives the number of places that the basket holds in a section
    afterwards. A repeat adds nothing, and no time either. A request never releases places: use `let_go` for that.
    """
    event = await _on_sale(tx, event_id, by_staff=by_staff)
    if event["has_waitlist"] and offer is None and not places and not code:
        raise NotOnSale(f"{event['name']} is sold out: join the waitlist")
    name = basket_name(basket)
    seats = [*seats, *(await _seats_by_label(tx, event_id, labels) if labels else ())]
    await baskets.lock_basket(
        tx, name, event_id
    )  # before the count: parallel requests must not pass the limit together
    before = await baskets.holds(tx, name, event_id)
    wanted = await _wants(tx, event, seats, places or {}, before, is_offer=offer is not None)
    if not wanted:
        return _held(before)
    for is_addon, noun in ((False, "tickets"), (True, "add-ons")):
        count = sum((row["kind"] == "addon") == is_addon for row in (*before, *(section for _, section in wanted)))
        if count > event["most_per_order"] and not by_staff:
            raise TooMany(
                f"an order may have at most {event['most_per_order']} {noun}, and this one would have {count}"
            )
    code_id = None if offer is not None else await sale_terms.admit(tx, event, [row for _, row in wanted], code)
    wants = [want for want, _ in wanted]
    try:
        claimed = await claim(tx, wants, holder=_holder(name), until=offer or timedelta(seconds=event["hold_s"]))
    except CapacityRefused as refused:
        taken = tuple(each.unit or each.pool for each in refused.refusals)
        raise SeatTaken(str(refused), taken) from None
    if await baskets.take(tx, claimed.ids, name, code_id) < len(claimed.ids):
        raise SeatTaken("these seats were sold a moment ago, to an order of this basket: choose other seats")
    return _held(await baskets.holds(tx, name, event_id))


def missing(held: Held, labels: Sequence[str], places: Mapping[UUID, int]) -> int:
    """Return how many of these seats and places the basket does not hold yet."""
    own = {row["label"] for row in held.holds}
    return len(set(labels) - own) + sum(
        max(0, number - sum(row["section_id"] == section for row in held.holds)) for section, number in places.items()
    )


async def held(tx: Tx, event_id: UUID, basket: str) -> Held:
    return _held(await baskets.holds(tx, basket_name(basket), event_id))


async def let_go(tx: Tx, event_id: UUID, basket: str, *, holds: Sequence[UUID] | None = None) -> Held:
    """Release some or all holds of a basket. A checkout with any of these holds ends, and its payment page closes."""
    name = basket_name(basket)
    await baskets.lock_basket(tx, name, event_id)
    open_checkouts = await baskets.lock_checkouts_of(tx, name, event_id)
    rows = [row for row in await baskets.holds(tx, name, event_id) if holds is None or row["id"] in set(holds)]
    if rows:
        ended = {row["checkout_id"] for row in rows}
        for checkout in open_checkouts:
            if checkout["id"] in ended:
                await end(tx, checkout["id"], "abandoned", of=UNPAID)
        await release(tx, [row["claim_id"] for row in rows])
        await baskets.let_go(tx, [row["id"] for row in rows])
    return _held(await baskets.holds(tx, name, event_id))


async def choose_types(
    tx: Tx, event_id: UUID, basket: str, chosen: Mapping[UUID, UUID | None], *, code: str | None = ""
) -> Held:
    """Set the ticket types of some holds; None is the price of the section. A checkout with other prices ends.

    The staff needs no code (None).
    """
    event = await _on_sale(tx, event_id, by_staff=code is None)
    name = basket_name(basket)
    await baskets.lock_basket(tx, name, event_id)
    open_checkouts = await baskets.lock_checkouts_of(tx, name, event_id)
    rows = {row["id"]: row for row in await baskets.holds(tx, name, event_id)}
    if unknown := set(chosen) - set(rows):
        raise NothingHeld(f"hold {min(unknown)} is not in this basket, or no longer: choose seats again")
    changed = {id: type_id for id, type_id in chosen.items() if rows[id]["type_id"] != type_id}
    if changed:
        await sale_terms.set_types(tx, event, [rows[id] for id in changed], changed, code)
        for checkout in open_checkouts:
            if set(checkout["holds"]) & set(changed):
                await end(tx, checkout["id"], "abandoned", of=UNPAID)
    return _held(await baskets.holds(tx, name, event_id))


async def start_checkout(
    tx: Tx,
    event_id: UUID,
    basket: str,
    buyer: Buyer,
    *,
    coupon: str | None = None,
    answers: sale_terms.Given | None = None,
    staff: Staff | None = None,
) -> Any:
    """Start a checkout for everything that the basket holds, and extend the holds to the end of the checkout.

    A hold belongs to one payable checkout. A repeated request returns the same checkout. A different request replaces
    it: the older checkout ends, its payment page closes, and a payment that still arrives for it is refunded.
    """
    event = await _on_sale(tx, event_id, by_staff=staff is not None)
    name = basket_name(basket)
    code = coupon.strip().upper() if coupon else ""
    await baskets.lock_basket(tx, name, event_id)
    older = await baskets.lock_checkouts_of(tx, name, event_id)
    holds = await baskets.holds(tx, name, event_id)
    if not holds:
        raise NothingHeld("this basket holds no seats, or no longer: choose seats first")
    if all(row["kind"] == "addon" for row in holds):
        raise NothingHeld("add-ons are sold together with tickets: choose a ticket too")
    is_asked = event["has_questions"] and (staff is None or answers is not None)
    told = await sale_terms.answered(tx, event, holds, answers) if is_asked else None
    for checkout in older:
        if checkout["expires_at"] > checkout["now"] and _is_same(checkout, holds, buyer, code, told):
            return await baskets.checkout(tx, checkout["id"])
        await end(tx, checkout["id"], "abandoned", of=UNPAID)
    customer = None if staff is not None else await sale_terms.limit_customer(tx, event, buyer.email, holds)
    coupon_row = await _coupon(tx, code, event) if code else None
    until = await _extend(tx, event, holds, lasts=None if staff is None else staff.lasts)
    priced = _quote(event, holds, coupon_row, is_free=staff is not None and staff.is_free)
    return await baskets.add_checkout(
        tx,
        uuid4(),
        event_id,
        name,
        buyer.user_id,
        buyer.email,
        buyer.name,
        buyer.locale,
        event["currency"],
        priced.subtotal_cents,
        priced.discount_cents,
        priced.tax_cents,
        priced.platform_fee_cents,
        priced.total_cents,
        event["fee_paid_by"],
        event["tax_included"],
        None if coupon_row is None else coupon_row["id"],
        None if coupon_row is None else coupon_row["code"],
        min(row["created_at"] for row in holds),
        until,
        priced.group_discount_cents,
        customer,
        told,
        *_columns(holds, priced),
    )


async def abandon(tx: Tx, checkout_id: UUID) -> bool:
    """Abandon the checkout: free its seats and close its payment page. Return False if it had ended already."""
    checkout = await baskets.checkout(tx, checkout_id, lock=True)
    if checkout is None:
        raise NotFound(f"there is no checkout {checkout_id}")
    if checkout["status"] == "completed":
        raise CheckoutClosed("this order is paid: request a refund instead")
    holds = await baskets.holds_of(tx, checkout_id)
    if holds:
        await release(tx, [row["claim_id"] for row in holds])
        await baskets.let_go(tx, [row["id"] for row in holds])
    return await end(tx, checkout_id, "abandoned", of=UNPAID)


async def end(tx: Tx, checkout_id: UUID, status: str, *, of: Sequence[str]) -> bool:
    """End an unpaid checkout and close its payment page."""
    if not await baskets.end_checkout(tx, checkout_id, status, of=of):
        return False
    await tx.payments.close(CHECKOUT, checkout_id)
    return True


def _is_same(checkout: Any, holds: Sequence[Any], buyer: Buyer, code: str, answers: Any) -> bool:
    """Return whether an open checkout already has what the request asks for."""
    return (
        checkout["status"] in ("started", "failed")
        and set(checkout["holds"]) == {row["id"] for row in holds}
        and (checkout["email"], checkout["name"], checkout["user_id"], checkout["locale"])
        == (buyer.email, buyer.name, buyer.user_id, buyer.locale)
        and (checkout["coupon_code"] or "") == code
        and checkout["answers"] == answers
    )


def policy_of(event: Any) -> Policy:
    return Policy(
        fee_bps=event["fee_bps"],
        fee_paid_by=event["fee_paid_by"],
        tax_bps=event["tax_bps"],
        tax_included=event["tax_included"],
        group_from=event["group_from"],
        group_bps=event["group_bps"] or 0,
    )


async def price_of(tx: Tx, event_id: UUID, holds: Sequence[Any]) -> Quote:
    """Return what the buyer of these holds will pay, with fee and tax, before any coupon."""
    return _quote(await setup.event(tx, event_id), holds, None)


def _quote(event: Any, holds: Sequence[Any], coupon_row: Any, *, is_free: bool = False) -> Quote:
    coupon = (
        None
        if coupon_row is None
        else Coupon(
            code=coupon_row["code"], percent_bps=coupon_row["percent_bps"], amount_cents=coupon_row["amount_cents"]
        )
    )
    prices = [0 if is_free else row["price_cents"] for row in holds]
    admits = [row["kind"] != "addon" for row in holds]
    return quote(prices, policy_of(event), coupon, admits=admits, step=step(event["currency"]))


def _columns(holds: Sequence[Any], priced: Quote) -> list[list[Any]]:
    shares = priced.shares
    return [
        [row["section_id"] for row in holds],
        [row["seat_id"] for row in holds],
        [row["id"] for row in holds],
        [row["type_id"] for row in holds],
        [share.price_cents for share in shares],
        [share.discount_cents for share in shares],
        [share.tax_cents for share in shares],
        [share.fee_cents for share in shares],
        list(range(len(holds))),
    ]


async def wait_longer(tx: Tx, checkout: Any, lasts: timedelta) -> datetime:
    """Let a checkout and its places wait for a bank transfer. The caller has locked the checkout."""
    holds = await baskets.holds_of(tx, checkout["id"])
    if not holds:
        raise NothingHeld("the time for these seats is over: choose seats again")
    extended = await _extended(tx, holds, lasts)
    await baskets.wait_until(tx, checkout["id"], extended)
    return extended


async def _extend(tx: Tx, event: Any, holds: Sequence[Any], *, lasts: timedelta | None = None) -> datetime:
    """Extend the holds to the end of the checkout, and return that time.

    A hold lasts for the time to choose and the time to pay, counted once from its beginning, however often the buyer
    starts a checkout.
    """
    last = min(row["created_at"] for row in holds) + timedelta(seconds=event["hold_s"] + event["checkout_s"])
    # The holds of an offer of the waitlist last longer: a buyer who begins in time has the time to pay.
    last = max(last, min(row["held_until"] for row in holds))
    usual = timedelta(seconds=event["checkout_s"])
    is_over = NothingHeld("the time for these seats is over: choose seats again")
    if last < event["now"] + SHORTEST_CHECKOUT:
        raise is_over
    until = usual if event["now"] + usual <= last else last
    return await _extended(tx, holds, lasts or until)


async def _extended(tx: Tx, holds: Sequence[Any], until: timedelta | datetime) -> datetime:
    is_over = NothingHeld("the time for these seats is over: choose seats again")
    try:
        extended = await extend(tx, [row["claim_id"] for row in holds], until=until)
    except asyncpg.PostgresError as error:
        if error.sqlstate != ENDED_ALREADY:
            raise
        raise is_over from None  # this transaction has waited for the pools until then
    except CapacityRefused as refused:
        raise SeatTaken(str(refused), tuple(each.unit or each.pool for each in refused.refusals)) from None
    assert extended.until is not None
    return extended.until


async def _coupon(tx: Tx, code: str, event: Any) -> Any:
    coupon_row = await coupons.lock_by_code(tx, code, event["id"])
    if coupon_row is None:
        raise BadCoupon(f"there is no coupon {code!r} for this event")
    if coupon_row["currency"] not in (None, event["currency"]):
        raise BadCoupon(
            f"coupon {code!r} takes off an amount in {coupon_row['currency']},"
            f" and this event is sold in {event['currency']}"
        )
    if coupon_row["valid_until"] is not None and coupon_row["valid_until"] <= await baskets.clock(tx):
        raise BadCoupon(f"coupon {code!r} is over")
    if coupon_row["most_uses"] is not None and await coupons.uses(tx, coupon_row["id"]) >= coupon_row["most_uses"]:
        raise BadCoupon(f"coupon {code!r} is used up")
    return coupon_row


async def _on_sale(tx: Tx, event_id: UUID, *, by_staff: bool = False) -> Any:
    event = await baskets.event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if event["status"] not in (("on_sale", "closed") if by_staff else ("on_sale",)):
        raise NotOnSale(f"{event['name']} is not on sale: it is {event['status'].replace('_', ' ')}")
    if event["ends_at"] <= event["now"]:
        raise NotOnSale(f"{event['name']} is over")
    return event


async def _seats_by_label(tx: Tx, event_id: UUID, labels: Sequence[str]) -> list[UUID]:
    seats = await baskets.seats_by_label(tx, event_id, labels)
    if len(seats) != len(set(labels)):
        raise NotFound("some of these seats do not belong to this event")
    return seats


async def _wants(
    tx: Tx, event: Any, seats: Sequence[UUID], places: Mapping[UUID, int], before: Sequence[Any], *, is_offer: bool
) -> list[tuple[Want, Any]]:
    """Return what is missing in the basket, each with the row of its section."""
    if not seats and not places:
        raise NothingHeld("nothing was requested: give seats or places")
    rows = await baskets.seats(tx, event["id"], seats) if seats else []
    if len(rows) != len(set(seats)):
        raise NotFound("some of these seats do not belong to this event")
    pools = await baskets.general(tx, event["id"], list(places)) if places else {}
    for section in places:
        if section not in pools:
            raise NotFound(f"section {section} of this event has no places without seats")
    if event["has_waitlist"] and not is_offer:
        for row in (*rows, *pools.values()):
            if row["kind"] != "addon" and sale_terms.not_on_sale(event, row) is None:
                raise NotOnSale(f"{event['name']} is sold out: join the waitlist")
    gone = tuple(seat["label"] for seat in rows if seat["status"] in ("blocked", "sold"))
    if gone:
        raise SeatTaken(f"not for sale: {', '.join(gone)}", gone)
    own = {row["seat_id"] for row in before}
    wanted = [(Want(seat["pool_key"], unit=seat["label"]), seat) for seat in rows if seat["id"] not in own]
    for section, number in places.items():
        missing = number - sum(row["section_id"] == section for row in before)
        # One claim each, so that each can be released separately.
        wanted += [(Want(pools[section]["pool_key"]), pools[section]) for _ in range(missing)]
    return wanted


def _holder(name: str) -> str:
    return f"basket:{name}"


def _held(rows: Sequence[Any]) -> Held:
    return Held(tuple(rows), min((row["held_until"] for row in rows), default=None))
