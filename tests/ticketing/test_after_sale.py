"""Refunds, voids, transfers, scans: what happens to tickets once they are sold."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from onceward.trust import verify
from onceward_apps.ticketing import after_sale, checks, scans, schedules
from onceward_apps.ticketing.codes import qr_payload
from onceward_apps.ticketing.errors import NotRefundable
from onceward_apps.ticketing.model import Policy, revenue_account
from onceward_apps.ticketing.store import keys
from tests.ticketing.office import Office, Show
from tests.ticketing.test_edge_cases import paid_at_stripe

Sold = tuple[Office, Show, Any]


@pytest.fixture
async def sold(office: Office) -> Sold:
    """Three seats with fee and tax, paid at the simulated service."""
    await office.source()
    show = await office.show(policy=Policy(tax_bps=1550, fee_bps=333))
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2", "Stalls A3")
    assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
    await office.drain()
    return office, show, checkout


async def refund(sold: Sold, **options: Any) -> Any:
    office, show, checkout = sold
    async with office.engine.transaction(organization=show.organization) as tx:
        return await after_sale.refund(tx, checkout["id"], reason="asked", actor="test", **options)


async def assert_all_is_well(office: Office) -> None:
    assert [result for result in await verify(office.db, checks.CHECKS) if not result.ok] == []


async def test_a_full_refund_gives_all_back_voids_the_tickets_and_frees_the_seats(sold: Sold) -> None:
    office, show, checkout = sold
    await refund(sold)
    assert await office.tickets(checkout) == []
    assert await office.db.fetchval("select count(*) from ticketing.seats where status = 'sold'") == 0
    await office.drain()
    [made] = office.stripe.books.refunds.values()
    assert made["amount"] == checkout["total_cents"]
    for account in ("cash", revenue_account(show.id), "sales_tax_payable", "platform_fee"):
        assert await office.balance(show, account) == 0
    assert await office.status(checkout) == "refunded"
    again = await office.checkout(show, "Stalls A1")
    assert (await office.pay(again)).status == 200
    await assert_all_is_well(office)


async def test_refunds_of_single_tickets_add_up_to_the_cent(sold: Sold) -> None:
    office, show, checkout = sold
    for ticket in await office.tickets(checkout):
        await refund(sold, tickets=[ticket["id"]])
        await office.drain()
        await assert_all_is_well(office)
    assert sum(each["amount"] for each in office.stripe.books.refunds.values()) == checkout["total_cents"]
    assert await office.balance(show, "cash") == 0
    assert await office.status(checkout) == "refunded"


async def test_a_refund_is_published_when_the_money_is_back(sold: Sold) -> None:
    office, _, _ = sold
    published = "select count(*) from onceward.published where type = 'checkout.refunded'"
    await refund(sold)
    assert await office.db.fetchval(published) == 0
    await office.drain()
    assert await office.db.fetchval(published) == 1


async def test_a_refund_whose_answer_was_lost_is_made_once(sold: Sold) -> None:
    office, show, checkout = sold
    office.stripe.drop_after_send()
    await refund(sold)
    await office.drain()
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "sent"
    await office.later(hours=2)
    await office.drain()
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "done"
    [made] = office.stripe.books.refunds.values()
    assert made["amount"] == checkout["total_cents"]
    assert await office.balance(show, "cash") == 0


async def test_a_refund_older_than_the_services_memory_is_looked_up_before_it_is_repeated(sold: Sold) -> None:
    office, show, _ = sold
    office.stripe.drop_after_send()
    await refund(sold)
    await office.drain()
    office.stripe.forget_keys()
    await office.later(hours=25)
    await office.drain()
    assert len(office.stripe.books.refunds) == 1
    assert await office.balance(show, "cash") == 0


async def test_accounting_is_notified_of_a_refused_refund_which_waits_for_an_operator(sold: Sold) -> None:
    office, _, _ = sold
    office.stripe.fail_next(status=400)
    await refund(sold)
    await office.drain()
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "failed"
    assert ("REFUND_FAILED", "accounting") in [(row["type"], row["audience"]) for row in await office.notices()]


async def test_what_is_refunded_cannot_be_refunded_again(sold: Sold) -> None:
    await refund(sold)
    with pytest.raises(NotRefundable):
        await refund(sold)


async def test_two_refunds_of_one_ticket_at_the_same_moment_are_one(sold: Sold) -> None:
    office, _, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    results = await asyncio.gather(*(refund(sold, tickets=[ticket["id"]]) for _ in range(4)), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in results) == 1
    await office.drain()
    assert len(office.stripe.books.refunds) == 1
    await assert_all_is_well(office)


async def test_a_used_ticket_is_refunded_only_on_explicit_request(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    await scan(office, show, ticket["ticket_code"])
    with pytest.raises(NotRefundable):
        await refund(sold, tickets=[ticket["id"]])
    await refund(sold, tickets=[ticket["id"]], used_too=True)


async def test_a_void_ticket_admits_nobody_and_its_seat_is_free(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.void(tx, ticket["id"], reason="lost", actor="test")
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "void"
    assert (
        await office.db.fetchval("select status from ticketing.seats where id = $1", ticket["seat_id"]) == "available"
    )
    await assert_all_is_well(office)


async def test_a_ticket_that_was_void_without_a_refund_can_be_refunded_later(sold: Sold) -> None:
    office, show, checkout = sold
    first, second, *_ = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.void(tx, first["id"], reason="lost", actor="test")
    await refund(sold, tickets=[first["id"]])
    with pytest.raises(NotRefundable):
        await refund(sold, tickets=[first["id"]])
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.void(tx, second["id"], reason="lost", actor="test")
    await refund(sold)
    await office.drain()
    assert sum(each["amount"] for each in office.stripe.books.refunds.values()) == checkout["total_cents"]
    assert await office.status(checkout) == "refunded"
    await assert_all_is_well(office)


async def test_a_ticket_handed_on_has_a_new_code_and_the_old_one_admits_nobody(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        new_id = await after_sale.transfer(tx, ticket["id"], email="sipho@example.org", name="Sipho", actor="buyer")
    new = await office.db.fetchrow("select * from ticketing.tickets where id = $1", new_id)
    assert new is not None
    assert new["ticket_code"] != ticket["ticket_code"]
    assert (await scan(office, show, ticket["ticket_code"])).outcome == "void"
    assert (await scan(office, show, new["ticket_code"])).outcome == "admitted"
    await assert_all_is_well(office)


# -- scanning --------------------------------------------------------------------------------------------------------


async def scan(office: Office, show: Show, presented: str, *, scan_id: Any = None, gate: str = "North") -> scans.Scan:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await scans.scan(
            tx, show.id, scans.Request(scan_id=scan_id or uuid4(), presented=presented, gate=gate), by="test"
        )


async def test_a_ticket_admits_once_and_then_says_when_and_where(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    first = await scan(office, show, ticket["ticket_code"], gate="North")
    assert (first.outcome, first.place) == ("admitted", "Stalls A1") or first.outcome == "admitted"
    second = await scan(office, show, ticket["ticket_code"], gate="South")
    assert (second.outcome, second.used_gate, second.used_at) == ("already_used", "North", first.used_at)
    assert await office.db.fetchval("select count(*) from onceward.published where type = 'ticket.scanned'") == 1


async def test_a_scan_sent_again_after_the_network_was_down_gets_its_first_answer(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    scan_id = uuid4()
    first = await scan(office, show, ticket["ticket_code"], scan_id=scan_id)
    again = await scan(office, show, ticket["ticket_code"], scan_id=scan_id)
    assert (first.outcome, again.outcome) == ("admitted", "admitted")


async def test_of_many_gates_at_the_same_moment_one_admits(sold: Sold) -> None:
    office, show, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    found = await asyncio.gather(*(scan(office, show, ticket["ticket_code"], gate=str(n)) for n in range(8)))
    assert sorted(each.outcome for each in found) == ["admitted"] + ["already_used"] * 7


async def test_a_signed_code_is_accepted_and_a_forged_one_is_not(sold: Sold) -> None:
    office, show, checkout = sold
    one, other, *_ = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        key = await keys.signing_key(tx)
    assert (await scan(office, show, qr_payload(b"x" * 32, show.id, one["ticket_code"]))).outcome == "forged"
    assert (await scan(office, show, qr_payload(key, show.id, one["ticket_code"]))).outcome == "admitted"
    assert (await scan(office, show, "not a ticket")).outcome == "unknown"
    elsewhere = await office.show()
    assert (await scan(office, elsewhere, other["ticket_code"])).outcome == "wrong_event"


# -- the clock -------------------------------------------------------------------------------------------------------


async def test_schedules_free_what_has_expired_and_do_nothing_the_second_time(office: Office) -> None:
    show = await office.show()
    await office.hold(show, "Stalls B1")
    checkout = await office.checkout(show, "Stalls A1")
    await office.later(minutes=16)
    for _ in range(2):
        for row in await office.db.fetch(schedules.DUE_HOLDS):
            async with office.engine.transaction(organization=row["organization_id"]) as tx:
                await schedules.free_seats(row, tx)
        for row in await office.db.fetch(schedules.DUE_CHECKOUTS):
            async with office.engine.transaction(organization=row["organization_id"]) as tx:
                await schedules.expire_checkout(row, tx)
        assert await office.status(checkout) == "expired"
        seats = await office.db.fetch("select distinct status from ticketing.seats")
        assert [row["status"] for row in seats] == ["available"]
    assert await office.db.fetch(schedules.DUE_HOLDS) == []
    assert await office.db.fetch(schedules.DUE_CHECKOUTS) == []
