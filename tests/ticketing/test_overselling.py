"""A place has one ticket and a coupon's use one order, however many requests and payments come for them.

Each race has a twin that shows it without the lock.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from onceward.trust import verify
from onceward_apps.ticketing import baskets, checkout_payments, checks, coupons
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import BadCoupon, SeatTaken, TicketingError, TooMany
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import coupons as coupon_rows
from tests.ticketing.office import Office, Show
from tests.ticketing.test_edge_cases import paid_at_stripe

LAWN = Section(name="Lawn", price_cents=9000, places=1)


async def lawn(office: Office, places: int = 1, **more: Any) -> tuple[Show, UUID]:
    show = await office.show(sections=(Section(name="Lawn", price_cents=9000, places=places),), **more)
    return show, await office.db.fetchval("select id from ticketing.sections where event_id = $1", show.id)


async def start(office: Office, show: Show, basket: str, email: str = "b@example.org", **more: Any) -> Any:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await baskets.start_checkout(tx, show.id, basket, baskets.Buyer(email=email), **more)


async def at_once(*calls: Any) -> list[Any]:
    """Run calls at the same time; what they raise is in the list."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, TicketingError):
            raise each
    return found


async def assert_verified(office: Office) -> None:
    assert [result for result in await verify(office.db, checks.CHECKS) if not result.ok] == []


async def unlocked(*_: Any) -> None:
    """In the place of a lock. The pause lets the others read before anybody writes."""
    await asyncio.sleep(0)


# -- one hold, one payable checkout ------------------------------------------------------------------------------


async def test_six_checkouts_at_once_over_one_hold_are_one_checkout_and_one_ticket(office: Office) -> None:
    await office.source()
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    made = await at_once(*(start(office, show, basket) for _ in range(6)))
    assert len({checkout["id"] for checkout in made}) == 1
    told = await asyncio.gather(*(office.pay(made[0]) for _ in range(2)))
    assert sorted(each.status for each in told) == [200, 200]
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status = 'active'") == 1
    await assert_verified(office)


async def test_six_checkouts_of_different_buyers_over_one_hold_leave_one_that_can_be_paid(office: Office) -> None:
    await office.source()
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    made = await at_once(*(start(office, show, basket, f"b{n}@example.org") for n in range(6)))
    intents = [await paid_at_stripe(office, checkout) for checkout in made]
    told = await asyncio.gather(
        *(office.pay(checkout, payment_intent=intent) for checkout, intent in zip(made, intents, strict=True))
    )
    assert sorted(each.status for each in told) == [200, 400, 400, 400, 400, 400]
    await office.drain()
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status = 'active'") == 1
    assert await office.db.fetchval("select count(*) from onceward.payment_refunds where status = 'done'") == 5
    assert await office.balance(show, "cash") == made[0]["total_cents"]
    await assert_verified(office)


async def test_without_the_lock_several_checkouts_can_be_paid_and_still_one_is_sold(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the race exists, and the sale itself does not depend on the lock."""
    await office.source()
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    read = rows.holds
    everybody = asyncio.Barrier(4)

    async def read_together(*arguments: Any) -> Any:
        found = await read(*arguments)
        await everybody.wait()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(rows, "lock_basket", unlocked)
        patch.setattr(rows, "holds", read_together)
        made = await at_once(*(start(office, show, basket, f"b{n}@example.org") for n in range(4)))
    assert [await office.status(checkout) for checkout in made] == ["started"] * 4
    found = {result.name: result.ok for result in await verify(office.db, checks.CHECKS)}
    assert not found["ticketing.a_hold_has_one_payable_checkout"]
    intents = [await paid_at_stripe(office, checkout) for checkout in made]
    told = [await office.pay(checkout, payment_intent=intent) for checkout, intent in zip(made, intents, strict=True)]
    assert sorted(each.status for each in told) == [200, 400, 400, 400]
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status = 'active'") == 1


async def test_a_second_checkout_after_a_declined_card_closes_the_first_payment_page(office: Office) -> None:
    await office.source()
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    first = await start(office, show, basket)
    await checkout_payments.open_payment(office.engine, show.organization, first["id"], "stripe")
    await office.pay(first, type="payment_intent.payment_failed", id="pi_declined", status="requires_payment_method")
    assert await office.status(first) == "failed"
    second = await start(office, show, basket, "another@example.org")
    await office.drain()
    assert (await office.status(first), await office.status(second)) == ("abandoned", "started")
    [session] = office.stripe.books.sessions.values()
    assert session["status"] == "expired"


@pytest.mark.parametrize("later_pays_first", [True, False])
async def test_both_of_two_checkouts_over_one_seat_are_paid_and_one_is_refunded(
    office: Office, later_pays_first: bool
) -> None:
    await office.source()
    show = await office.show()
    basket = await office.hold(show, "Stalls A1")
    first = await start(office, show, basket)
    await office.pay(first, type="payment_intent.payment_failed", id="pi_declined", status="requires_payment_method")
    second = await start(office, show, basket, "another@example.org")
    order = [second, first] if later_pays_first else [first, second]
    for checkout in order:
        await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))
    await office.drain()
    assert [len(await office.tickets(checkout)) for checkout in (first, second)] == [0, 1]
    [refund] = await office.refunds()
    assert (refund["status"], refund["amount"]) == ("done", first["total_cents"])
    assert [refund] == await office.refunds(first)
    await assert_verified(office)


async def test_a_sale_whose_hold_was_sold_before_is_seats_gone(office: Office) -> None:
    """Whatever led to it: the sale looks at the hold, not only at the claim, whose conversion would succeed again."""
    await office.source()
    show, section = await lawn(office)
    checkout = await office.checkout(show, places={section: 1})
    await office.db.execute("update ticketing.seat_holds set status = 'converted'")
    told = await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))
    assert (told.status, told.json["error"]) == (400, "seats_gone")


async def test_giving_up_a_replaced_checkout_leaves_the_holds_of_its_successor(office: Office) -> None:
    await office.source()
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    first = await start(office, show, basket)
    second = await start(office, show, basket, "another@example.org")
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.abandon(tx, first["id"])
    assert (await office.pay(second)).status == 200


async def test_releasing_a_hold_ends_the_checkout_over_it(office: Office) -> None:
    show, section = await lawn(office)
    basket = await office.hold(show, places={section: 1})
    checkout = await start(office, show, basket)
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.let_go(tx, show.id, basket)
    assert await office.status(checkout) == "abandoned"
    await office.hold(show, places={section: 1})


# -- most per order ----------------------------------------------------------------------------------------------


async def hold_five_times(office: Office) -> tuple[list[Any], int]:
    """Five requests of one basket, each for ten other seats."""
    hall = Section(name="Hall", price_cents=100, rows=dict.fromkeys("ABCDE", 10))
    show = await office.show(sections=(hall,), most_per_order=10)
    basket = new_basket()
    found = await at_once(
        *(office.hold(show, *(f"Hall {row}{n}" for n in range(1, 11)), basket=basket) for row in "ABCDE")
    )
    held = await office.db.fetchval("select count(*) from ticketing.seat_holds where status = 'active'")
    return found, held


async def test_parallel_holds_of_one_basket_stay_within_the_limit_of_an_order(office: Office) -> None:
    found, held = await hold_five_times(office)
    assert held == 10
    assert sum(isinstance(each, TooMany) for each in found) == 4


async def test_without_the_lock_parallel_holds_go_over_the_limit(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "lock_basket", unlocked)
    _, held = await hold_five_times(office)
    assert held > 10


async def test_the_same_places_asked_for_five_times_are_held_once(office: Office) -> None:
    show, section = await lawn(office, 30)
    basket = new_basket()
    await at_once(*(office.hold(show, basket=basket, places={section: 4}) for _ in range(5)))
    assert await office.db.fetchval("select count(*) from ticketing.seat_holds where status = 'active'") == 4


# -- coupons -----------------------------------------------------------------------------------------------------


async def last_use(office: Office, show: Show) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await coupons.add(tx, "only-once", percent_bps=1000, most_uses=1, actor="test")


async def use_at_once(office: Office) -> list[Any]:
    show = await office.show()
    await last_use(office, show)
    return await at_once(*(office.checkout(show, f"Stalls A{n}", coupon="ONLY-ONCE") for n in range(1, 7)))


async def test_the_last_use_of_a_coupon_is_given_to_one_of_six_buyers(office: Office) -> None:
    found = await use_at_once(office)
    assert sum(isinstance(each, BadCoupon) for each in found) == 5


async def test_counting_in_the_statement_that_locks_gives_the_last_use_to_several(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a statement that waits for a lock still counts what was committed before it began."""
    counted: dict[UUID, int] = {}
    at_the_lock = asyncio.Barrier(6)

    async def lock_and_count(tx: Any, code: str, event_id: UUID) -> Any:
        await at_the_lock.wait()
        found = await tx.fetchrow(
            "select c.*, (select count(*) from ticketing.checkouts k where k.coupon_id = c.id) as used"
            " from ticketing.coupons c where c.code = $1 for update of c",
            code,
        )
        counted[found["id"]] = found["used"]
        return found

    async def count_of_the_lock(tx: Any, coupon_id: UUID, **_: Any) -> int:
        return counted[coupon_id]

    monkeypatch.setattr(coupon_rows, "lock_by_code", lock_and_count)
    monkeypatch.setattr(coupon_rows, "uses", count_of_the_lock)
    found = await use_at_once(office)
    assert sum(not isinstance(each, BadCoupon) for each in found) > 1


async def test_a_coupon_that_went_to_another_buyer_refunds_who_pays_too_late(office: Office) -> None:
    await office.source()
    show = await office.show()
    await last_use(office, show)
    late = await office.checkout(show, "Stalls A1", coupon="only-once")
    await office.later(minutes=16)
    second = await office.checkout(show, "Stalls A2", coupon="only-once")
    told = await office.pay(late, payment_intent=await paid_at_stripe(office, late))
    assert (told.status, told.json["error"]) == (400, "coupon_used_up")
    assert (await office.pay(second)).status == 200
    await office.drain()
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "done"
    await assert_verified(office)


async def test_a_coupon_that_nobody_took_meanwhile_sells_late(office: Office) -> None:
    await office.source()
    show = await office.show()
    await last_use(office, show)
    late = await office.checkout(show, "Stalls A1", coupon="only-once")
    await office.later(minutes=16)
    assert (await office.pay(late)).status == 200
    with pytest.raises(BadCoupon):
        await office.checkout(show, "Stalls A2", coupon="only-once")


# -- orders that cost nothing ------------------------------------------------------------------------------------


async def test_a_free_order_whose_seats_are_gone_is_refused_without_an_entry(office: Office) -> None:
    show = await office.show(sections=(Section(name="Hall", price_cents=0, rows={"A": 2}),))
    checkout = await office.checkout(show, "Hall A1")
    claim = await office.db.fetchval("select claim_id from ticketing.seat_holds")
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.release(tx, [claim])
    with pytest.raises(SeatTaken, match="choose seats again"):
        await checkout_payments.open_payment(office.engine, show.organization, checkout["id"], "stripe")
    assert await office.db.fetchval("select count(*) from onceward.ledger_journals") == 0
    assert await office.db.fetchval("select count(*) from onceward.payment_refunds") == 0


# -- what verify finds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (
            "update ticketing.checkout_items set seat_hold_id = (select min(id::text)::uuid from ticketing.seat_holds)",
            "ticketing.a_place_has_one_ticket",
        ),
        (
            "update ticketing.checkouts set payment_id = (select min(payment_id::text)::uuid from ticketing.checkouts)",
            "ticketing.a_payment_bought_one_order",
        ),
        (
            "update ticketing.checkouts set coupon_id = (select id from ticketing.coupons)",
            "ticketing.coupons_are_used_as_often_as_allowed",
        ),
    ],
)
async def test_verify_names_a_doubled_effect(office: Office, damage: str, check: str) -> None:
    await office.source()
    show, section = await lawn(office, 5)
    await last_use(office, show)
    for _ in range(2):
        checkout = await office.checkout(show, places={section: 1})
        assert (await office.webhook(await office.charge(checkout))).status == 200
    await assert_verified(office)
    await office.db.execute(damage)
    found = {result.name: result.ok for result in await verify(office.db, checks.CHECKS)}
    assert not found[check]
