"""What a payment service must do with refunds."""

from __future__ import annotations

import pytest

from onceward.money import Money
from onceward.payments.service import (
    RefundRefused,
    RefundReport,
    Refunds,
)
from onceward.services.outcome import Refused, Throttled, Unknown
from tests.payments.conformance.conftest import World


async def test_refunds_in_part_and_in_full_are_listed_oldest_first(world: World) -> None:
    paid = await world.paid()
    part = await world.refund(paid, Money(600, "EUR"), key="refund:part")
    rest = await world.refund(paid, key="refund:rest")
    assert isinstance(part, RefundReport)
    assert isinstance(rest, RefundReport)
    assert (part.state, part.amount, part.key) == ("succeeded", Money(600, "EUR"), "refund:part")
    assert rest.amount == Money(10000, "EUR")
    assert await world.service.list_refunds(str(paid.charge)) == Refunds((part, rest))
    assert await world.service.read_refund(part.reference, charge=str(paid.charge)) == part
    over = await world.refund(paid, Money(1, "EUR"))
    assert isinstance(over, RefundRefused)
    assert over.why == "nothing_left"
    reported = {each.reference: each for each in await world.facts() if isinstance(each, RefundReport)}
    assert {each.key for each in reported.values()} == {"refund:part", "refund:rest"}
    assert {each.charge for each in reported.values()} == {paid.charge}


async def test_a_refund_at_the_service_lowers_what_remains(world: World) -> None:
    paid = await world.paid()
    world.refund_at_service(str(paid.charge), 1000)
    too_much = await world.refund(paid, paid.received)
    assert isinstance(too_much, RefundRefused)
    assert too_much.why == "too_much"
    rest = await world.refund(paid)
    assert isinstance(rest, RefundReport)
    assert rest.amount == Money(9600, "EUR")
    listed = await world.service.list_refunds(str(paid.charge))
    assert isinstance(listed, Refunds)
    assert [each.key is None for each in listed.listed] == [True, False]


@pytest.mark.parametrize("succeeded", [True, False])
async def test_a_pending_refund_ends_and_a_replay_reports_the_end(world: World, succeeded: bool) -> None:
    paid = await world.paid()
    world.next_refund("pending")
    order = world.refund_order(paid, Money(500, "EUR"))
    waiting = await world.service.refund(order, key="r:1", key_age_s=0.0)
    assert isinstance(waiting, RefundReport)
    assert waiting.state == "pending"
    world.end_refund(waiting.reference, succeeded=succeeded)
    ended = await world.service.refund(order, key="r:1", key_age_s=0.0)
    assert isinstance(ended, RefundReport)
    assert (ended.reference, ended.state) == (waiting.reference, "succeeded" if succeeded else "failed")
    reported = [each for each in await world.facts() if isinstance(each, RefundReport)]
    assert reported[-1].state == ended.state
    if not succeeded:
        assert ended.failure
        repeat = await world.refund(paid)
        assert isinstance(repeat, RefundReport)
        assert repeat.amount == paid.received


async def test_a_refund_that_failed_late_is_reported_as_failed(world: World) -> None:
    if not world.is_stripe:
        pytest.skip("a completed refund at PayPal never fails")
    paid = await world.paid()
    done = await world.refund(paid)
    assert done.state == "succeeded"
    world.end_refund(done.reference, succeeded=False)
    late = await world.service.read_refund(done.reference, charge=str(paid.charge))
    assert isinstance(late, RefundReport)
    assert late.state == "failed"


@pytest.mark.parametrize(
    "fault", ["drop_after_send", "hang", "break_next", "break_after", "fail_next", "rate_limit", "forgotten"]
)
async def test_a_refund_whose_answer_was_lost_is_made_once(world: World, fault: str) -> None:
    paid = await world.paid()
    order, age_s = world.refund_order(paid, Money(500, "EUR")), 0.0
    match fault:
        case "hang":
            world.sim.hang(act=True, on=world.creates["refund"])
        case "break_next" | "break_after" if not world.is_stripe:
            pytest.skip("PayPal stores no failures")
        case "break_after":
            world.sim.break_next(act=True)
        case "break_next" | "rate_limit":
            getattr(world.sim, fault)()
        case "forgotten":
            world.sim.drop_after_send(on=world.creates["refund"])
        case _:
            getattr(world.sim, fault)(on=world.creates["refund"])
    service = world.impatient if fault == "hang" else world.service
    lost = await service.refund(order, key="r:1", key_age_s=0.0)
    assert isinstance(lost, Unknown | Refused | Throttled)
    if fault == "forgotten":
        world.sim.forget_keys()
        age_s = 50 * 86400.0
    made = await world.service.refund(order, key="r:1", key_age_s=age_s)
    assert isinstance(made, RefundReport), made
    assert made.key == "r:1"
    assert list(world.sim.books.refunds) == [made.reference]
