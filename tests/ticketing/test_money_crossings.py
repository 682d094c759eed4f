"""Where money meets the newer features: resale, the waitlist, the box office, invoices, settlements, erasures."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.money import Money
from onceward.payments.erasers import ERASERS as PAYMENT_ERASERS
from onceward.trust.erase import erase
from onceward_apps.ticketing import after_sale, box_office, event_changes, settlements, waitlist
from onceward_apps.ticketing.codes import waitlist_basket
from onceward_apps.ticketing.erasers import ERASERS
from onceward_apps.ticketing.errors import NotPayable, NotRefundable
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.schedules import WITH_WAITLIST
from onceward_apps.ticketing.store import keys
from tests.ticketing.office import Office, Show
from tests.ticketing.test_disputes import closed, opened
from tests.ticketing.test_edge_cases import paid_at_stripe
from tests.ticketing.test_invoices import documents
from tests.ticketing.test_refund_states import move
from tests.ticketing.test_refunds_elsewhere import refund, sell

SECTIONS = (Section(name="Stalls", price_cents=3333, rows={"A": 3}),)


def acting(office: Office, show: Show) -> Any:
    return office.engine.transaction(organization=show.organization)


async def join(office: Office, show: Show, email: str) -> UUID:
    async with acting(office, show) as tx:
        entry = await waitlist.join(tx, show.id, email=email, name="", locale=None, seats=1)
    return entry["id"]


async def offer(office: Office) -> None:
    """What the schedule does."""
    for row in await office.db.fetch(WITH_WAITLIST):
        async with office.engine.transaction(organization=row["organization_id"]) as tx:
            await waitlist.offer_next(tx, row["id"])


async def states(office: Office) -> list[str]:
    return [row["status"] for row in await office.db.fetch("select status from ticketing.waitlist order by created_at")]


async def sold_out(office: Office, policy: Policy = Policy()) -> tuple[Show, Any]:
    """An event whose three seats one order has, with somebody who waits; its tickets may be given back."""
    await office.source()
    show = await office.show(sections=SECTIONS, policy=policy)
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2", "Stalls A3")
    assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
    await office.drain()
    await join(office, show, "first@example.org")
    async with acting(office, show) as tx:
        await event_changes.edit(tx, show.id, has_resale=True, actor="test")
    return show, checkout


async def test_tickets_that_are_given_back_while_a_refund_is_pending_are_each_paid_once(office: Office) -> None:
    """The last refund is of all that remains: it must not take what an earlier one, which waits for the bank, pays."""
    show, checkout = await sold_out(office, Policy(tax_bps=1900, tax_included=True))
    tickets = await office.tickets(checkout)
    office.stripe.books.next_refund_statuses.append("pending")
    async with acting(office, show) as tx:
        await after_sale.resell(tx, checkout["id"], tickets[0]["id"])
    await office.drain()
    async with acting(office, show) as tx:
        await after_sale.resell(tx, checkout["id"], tickets[1]["id"])
        last = await after_sale.resell(tx, checkout["id"], tickets[2]["id"])  # not called yet either
    assert last is not None
    await office.drain()
    made = [each["amount"] for each in office.stripe.books.refunds.values()]
    assert sum(made) == checkout["total_cents"]
    [pending] = [each for each in office.stripe.books.refunds.values() if each["status"] == "pending"]
    office.stripe.move_refund(pending["id"], "succeeded")
    await office.deliver()
    await office.later(hours=1)
    await office.ask()
    assert {row["status"] for row in await office.refunds()} <= {"done", "settled"}
    assert await office.cash(show) == 0
    invoice, *credits = [row["document"] for row in await documents(office, checkout)]
    assert sum(each["total_cents"] for each in credits) == invoice["total_cents"]
    taxes = [sum(rate["tax_cents"] for rate in each["rates"]) for each in (invoice, *credits)]
    assert taxes[0] == sum(taxes[1:])
    with pytest.raises(NotRefundable):
        async with acting(office, show) as tx:
            await after_sale.resell(tx, checkout["id"], tickets[0]["id"])
    await office.assert_sound()


async def test_a_refund_by_an_operator_of_the_installation_voids_the_tickets_when_nothing_is_left(
    office: Office,
) -> None:
    sold = await sell(office)
    _, show, checkout = sold
    [payment] = await office.db.fetch("select id from onceward.payments")
    for amount in (1000, None):
        assert len(await office.tickets(checkout)) == 3
        async with acting(office, show) as tx:
            money = None if amount is None else Money(amount, "EUR")
            await tx.payments.refund(payment["id"], amount=money, reason="asked", by="cli")
        await office.drain()
    assert (await office.tickets(checkout), await office.status(checkout)) == ([], "refunded")
    assert await office.db.fetchval("select count(*) from ticketing.seats where status = 'sold'") == 0
    mails = await office.db.fetch("select template from onceward.messages order by id")
    assert [row["template"] for row in mails] == ["order-confirmation", "order-refunded"]
    assert [row["type"] for row in await office.notices()] == []
    assert await office.cash(show) == 0
    await office.assert_sound()


async def test_an_offer_that_is_paid_after_its_end_is_paid_back_if_the_place_is_offered_to_the_next(
    office: Office,
) -> None:
    show, checkout = await sold_out(office)
    await join(office, show, "second@example.org")
    async with acting(office, show) as tx:
        await after_sale.resell(tx, checkout["id"], (await office.tickets(checkout))[0]["id"])
        basket = waitlist_basket(await keys.signing_key(tx), await _first(office))
    await offer(office)
    bought = await office.checkout(show, basket=basket)
    intent = await paid_at_stripe(office, bought)
    await office.later(hours=13)
    await office.db.execute("update ticketing.checkouts set status = 'expired' where status = 'started'")
    await offer(office)
    assert await states(office) == ["expired", "offered"]
    late = await office.pay(bought, payment_intent=intent)
    assert (late.status, late.json["error"]) == (400, "seats_gone")
    await office.drain()
    assert [(row["amount"], row["status"]) for row in await office.refunds(bought)] == [(bought["total_cents"], "done")]
    await office.assert_sound()


async def _first(office: Office) -> UUID:
    return await office.db.fetchval("select id from ticketing.waitlist order by created_at limit 1")


async def test_a_person_who_is_erased_leaves_the_line_and_an_offer_goes_to_the_next(office: Office) -> None:
    show, checkout = await sold_out(office)
    await join(office, show, "second@example.org")
    async with acting(office, show) as tx:
        await after_sale.resell(tx, checkout["id"], (await office.tickets(checkout))[0]["id"])
    await offer(office)
    assert await states(office) == ["offered", "waiting"]
    for email, after in (("first@example.org", ["expired", "offered"]), ("second@example.org", ["expired", "expired"])):
        erasers = [*ERASERS, *PAYMENT_ERASERS]
        await erase(office.db, email, erasers, organization=show.organization, actor="test")
        await offer(office)
        assert await states(office) == after
    # Somebody who waits and is erased keeps nobody from buying.
    async with acting(office, show) as tx:
        await event_changes.edit(tx, show.id, has_resale=False, actor="test")
    free = await office.db.fetchval("select label from ticketing.seats where status = 'available'")
    await office.hold(show, free)
    await office.db.execute("delete from ticketing.waitlist")
    await join(office, show, "third@example.org")
    await erase(office.db, "third@example.org", ERASERS, organization=show.organization, actor="test")
    assert await states(office) == ["left"]
    await offer(office)
    assert await office.db.fetchval("select has_waitlist from ticketing.events") is False
    await office.assert_sound()


async def test_nobody_waits_for_an_event_that_is_over(office: Office) -> None:
    show, checkout = await sold_out(office)
    async with acting(office, show) as tx:
        await after_sale.refund(tx, checkout["id"], reason="ill", actor="test")
    await office.later(days=31)
    await offer(office)
    assert (await states(office), await office.db.fetch(WITH_WAITLIST)) == (["expired"], [])


async def test_cash_for_an_order_that_is_being_paid_elsewhere_and_a_dispute_about_what_came_too_late(
    office: Office,
) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    checkout = await office.checkout(show, "Stalls A1")
    session = await office.open_page(show, checkout, "stripe")
    office.stripe.pay_later(session)
    await office.deliver()
    with pytest.raises(NotPayable, match="being processed"):
        async with acting(office, show) as tx:
            await box_office.take_cash(tx, checkout["id"], actor="test")
    office.stripe.end_late_payment(session, succeeded=True)
    await office.deliver()
    assert await office.status(checkout) == "completed"
    other = await office.checkout(show, "Stalls A2")
    session = await office.open_page(show, other, "stripe")
    async with acting(office, show) as tx:
        await box_office.take_cash(tx, other["id"], actor="test")
    office.stripe.pay(session)  # before the page was closed
    await office.deliver()
    assert [row["status"] for row in await office.refunds(other)] == ["done"]
    charges = list(office.stripe.books.intents)
    for won in (True, False):
        dispute = office.stripe.open_dispute(charges[-1])
        await closed((office, show, other), dispute, won=won)
    assert len(await office.tickets(other)) == 1
    # The cash goes back by hand: the tickets are void at once, and the till has it until somebody has paid.
    async with acting(office, show) as tx:
        made = await after_sale.refund(tx, other["id"], reason="ill", actor="test")
    await office.drain()
    assert (await office.tickets(other), await office.balance(show, "by_hand")) == ([], other["total_cents"])
    async with acting(office, show) as tx:
        await after_sale.settle(tx, made.id, note="paid at the counter", actor="test")
    assert await office.balance(show, "by_hand") == 0
    await office.drain()
    assert [row["kind"] for row in await documents(office, other)] == ["invoice", "credit_note"]
    await office.assert_sound()


async def test_a_refund_that_the_bank_returns_uses_one_number_and_is_paid_out_once(office: Office) -> None:
    """The credit note stays, since the buyer is owed the money; what is paid another way needs no second one."""
    sold = await sell(office, Policy(fee_bps=1000))
    _, show, checkout = sold
    await refund(sold)
    await office.drain()
    assert (await office.webhook(await move(office, "failed"))).status == 200
    await office.drain()
    async with acting(office, show) as tx:
        [row] = await office.refunds()
        await after_sale.settle(tx, row["id"], note="bank transfer", actor="test")
    await office.drain()
    found = await documents(office, checkout)
    assert [(each["number"], each["kind"]) for each in found] == [(1, "invoice"), (2, "credit_note")]
    # The platform has the money that the organizer has paid back: it owes it, without a fee.
    until = await office.db.fetchval("select onceward.now()")
    await office.later(hours=1, minutes=1)
    terms: dict[str, Any] = {"currency": "EUR", "until": until, "actor": "test"}
    settled = await settlements.settle(office.engine, show.organization, **terms)
    assert (settled["statement"]["fee_cents"], settled["payout_cents"]) == (0, await office.balance(show, "cash"))
    await office.assert_sound()


async def test_a_dispute_about_a_ticket_that_was_given_back_takes_only_what_is_left(office: Office) -> None:
    show, checkout = await sold_out(office)
    async with acting(office, show) as tx:
        await after_sale.resell(tx, checkout["id"], (await office.tickets(checkout))[0]["id"])
    sold = (office, show, checkout)
    dispute = await opened(sold)  # before the service was called
    await office.drain()
    await closed(sold, dispute, won=False)
    await office.drain()
    [row] = await office.refunds()
    assert (row["status"], row["booked"]) == ("settled", 0)
    assert (await office.tickets(checkout), await office.cash(show)) == ([], 0)
    assert await office.balance(show, "dispute_losses") == checkout["total_cents"]
    await offer(office)
    assert await states(office) == ["offered"]
    await office.assert_sound()
