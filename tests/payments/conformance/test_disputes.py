"""What a payment service must do with disputes and inquiries."""

from __future__ import annotations

import pytest

from onceward.errors import OncewardError
from onceward.money import Money
from onceward.payments.service import (
    DisputeReport,
    Disputes,
    RefundRefused,
    RefundReport,
)
from tests.payments.conformance.conftest import World


@pytest.mark.parametrize("won", [True, False])
async def test_a_dispute_withholds_the_money_until_it_is_decided(world: World, won: bool) -> None:
    paid = await world.paid()
    charge = str(paid.charge)
    reference = world.dispute(charge)
    listed = await world.service.list_disputes(charge)
    assert isinstance(listed, Disputes)
    [opened] = listed.listed
    assert (opened.reference, opened.state, opened.amount) == (reference, "open", paid.received)
    assert opened.withheld in (None, paid.received)
    refused = await world.refund(paid)
    assert isinstance(refused, RefundRefused)
    assert refused.why == "disputed"
    world.sim.close_dispute(reference, won=won)
    listed = await world.service.list_disputes(charge)
    assert isinstance(listed, Disputes)
    [ended] = listed.listed
    assert ended.state == ("won" if won else "lost")
    assert ended.withheld == (Money(0, "EUR") if won else paid.received)
    reported = [each for each in await world.facts() if isinstance(each, DisputeReport) and each.reference == reference]
    assert {each.charge for each in reported} == {charge}
    assert ended.state in {each.state for each in reported}
    if world.is_stripe:
        assert ended.fee == Money(1500, "EUR")


async def test_an_inquiry_takes_nothing_and_can_be_refunded(world: World) -> None:
    paid = await world.paid()
    charge = str(paid.charge)
    reference = world.dispute(charge, inquiry=True)
    listed = await world.service.list_disputes(charge)
    assert isinstance(listed, Disputes)
    assert (listed.listed[0].state, listed.listed[0].withheld) == ("inquiry", Money(0, "EUR"))
    assert isinstance(await world.refund(paid), RefundReport)
    if not world.is_stripe:  # Stripe closes an inquiry by itself after a full refund
        world.sim.close_dispute(reference, won=False)
    listed = await world.service.list_disputes(charge)
    assert isinstance(listed, Disputes)
    [ended] = listed.listed
    assert (ended.state, ended.withheld) == ("won" if world.is_stripe else "lost", Money(0, "EUR"))


async def test_a_dispute_that_was_decided_cannot_be_decided_again(world: World) -> None:
    for inquiry in (False, True):
        paid = await world.paid()
        reference = world.dispute(str(paid.charge), inquiry=inquiry)
        world.sim.close_dispute(reference, won=False)
        before = await world.service.list_disputes(str(paid.charge))
        with pytest.raises(OncewardError, match=r"is closed|UNPROCESSABLE"):
            world.sim.close_dispute(reference, won=True)
        assert await world.service.list_disputes(str(paid.charge)) == before


async def test_an_inquiry_becomes_a_dispute_of_what_was_not_refunded(world: World) -> None:
    paid = await world.paid()
    reference = world.dispute(str(paid.charge), inquiry=True)
    await world.refund(paid, Money(600, "EUR"))
    world.sim.escalate_dispute(reference)
    world.sim.close_dispute(reference, won=False)
    listed = await world.service.list_disputes(str(paid.charge))
    assert isinstance(listed, Disputes)
    assert (listed.listed[0].state, listed.listed[0].withheld) == ("lost", Money(10000, "EUR"))
