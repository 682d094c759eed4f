"""What every payment service promises (`onceward.payments.service`), for each integration against its simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward.http import ServiceClient
from onceward.integration import integrations
from onceward.integrations.paypal import PayPal, PayPalSimulator
from onceward.integrations.stripe import Stripe, StripeSimulator
from onceward.money import Money
from onceward.payments.service import (
    BalancePage,
    DisputeReport,
    Disputes,
    EventPage,
    Fact,
    InstalmentOrder,
    InvoiceReport,
    Line,
    PageOrder,
    PaymentReport,
    PaymentService,
    RefundOrder,
    RefundRefused,
    RefundReport,
    Refunds,
    SubscriptionReport,
)
from onceward.services.outcome import Absent, Refused, Throttled, Unknown

START = datetime.now(UTC) - timedelta(hours=1)


@dataclass
class World:
    """One service with its simulator, and what buyers, banks and people at the service do."""

    service: PaymentService
    sim: Any
    impatient: PaymentService
    """The same account, with a client that does not wait long for an answer."""

    @property
    def is_stripe(self) -> bool:
        return self.service.name == "stripe"

    def order(self, amount: Money = Money(10600, "EUR"), **given: Any) -> PageOrder:
        values: dict[str, Any] = {
            "payment_id": uuid4(),
            "amount": amount,
            "title": "Two seats",
            "success_url": "https://shop.example/ok",
            "cancel_url": "https://shop.example/no",
            "expires_at": datetime.now(UTC) + timedelta(seconds=self.service.shortest_page_s + 60),
            "email": "ada@example.com",
            "locale": "de-AT",
        }
        return PageOrder(**{**values, **given})

    async def opened(self, amount: Money = Money(10600, "EUR"), **given: Any) -> PaymentReport:
        report = await self.service.open(self.order(amount, **given), key=f"page:{uuid4()}")
        assert isinstance(report, PaymentReport), report
        return report

    async def paid(self, amount: Money = Money(10600, "EUR")) -> PaymentReport:
        page = (await self.opened(amount)).page
        assert page is not None
        self.buy(page)
        report = await self.service.capture(page, key=f"capture:{page}")
        assert isinstance(report, PaymentReport)
        assert report.state == "paid"
        return report

    def buy(self, page: str) -> None:
        (self.sim.pay if self.is_stripe else self.sim.approve)(page)

    def refund_order(self, paid: PaymentReport, amount: Money | None) -> RefundOrder:
        assert paid.charge is not None
        payment_id = paid.payment_id or uuid4()
        return RefundOrder(
            refund_id=uuid4(), payment_id=payment_id, charge=paid.charge, amount=amount, reason="cancelled"
        )

    async def refund(self, paid: PaymentReport, amount: Money | None = None, key: str | None = None) -> Any:
        return await self.service.refund(self.refund_order(paid, amount), key=key or f"refund:{uuid4()}", key_age_s=0.0)

    def next_refund(self, status: str) -> None:
        """Set the state of the next refund: `pending`."""
        self.sim.books.next_refund_statuses.append(status if self.is_stripe else status.upper())

    def end_refund(self, reference: str, *, succeeded: bool) -> None:
        word = "succeeded" if succeeded else "failed"
        self.sim.move_refund(
            reference, word if self.is_stripe else {"succeeded": "COMPLETED", "failed": "FAILED"}[word]
        )

    def dispute(self, charge: str, *, inquiry: bool = False) -> str:
        if self.is_stripe:
            return self.sim.open_dispute(charge, inquiry=inquiry)["id"]
        return self.sim.open_dispute(charge, stage="INQUIRY" if inquiry else "CHARGEBACK")["dispute_id"]

    def refund_at_service(self, charge: str, value: int) -> None:
        """Refund as a person does in the dashboard."""
        if self.is_stripe:
            refund, charged = self.sim.books.refund({"payment_intent": charge, "amount": str(value)})
            self.sim.emit("refund.created", refund)
            self.sim.emit("charge.refunded", charged)
        else:
            self.sim.refund(charge, f"{value / 100:.2f}")

    @property
    def creates(self) -> dict[str, str]:
        paths = ("POST /v1/checkout/sessions", "POST /v1/refunds")
        if not self.is_stripe:
            paths = ("POST /v2/checkout/orders", "POST /v2/payments/captures")
        return dict(zip(("page", "refund"), paths, strict=True))

    async def facts(self) -> list[Fact]:
        """Return everything that the events of the service say, read by the cursor in pages."""
        found: list[Fact] = []
        cursor: str | None = None
        while True:
            page = await self.service.list_events(cursor, since=START)
            assert isinstance(page, EventPage), page
            found += [fact for reading in page.readings for fact in reading.facts]
            cursor = page.cursor
            if not page.has_more:
                return found


@pytest.fixture
async def client() -> AsyncIterator[ServiceClient]:
    async with ServiceClient() as client:
        yield client


@pytest.fixture(params=["stripe", "paypal"])
async def world(request: pytest.FixtureRequest, client: ServiceClient) -> AsyncIterator[World]:
    made = integrations().load(request.param, "payments")
    if request.param == "stripe":
        async with StripeSimulator(retry_delays_s=()) as sim:
            patient, impatient = (Stripe(client, "sk_test_1", sim.url, timeout_s=each) for each in (30.0, 0.2))
            yield World(made.connect(patient), sim, made.connect(impatient))
    else:
        async with PayPalSimulator(retry_delays_s=()) as sim:
            patient, impatient = (
                PayPal(client, client_id="id", client_secret="s", base_url=sim.url, timeout_s=each)
                for each in (30.0, 0.2)
            )
            yield World(made.connect(patient), sim, made.connect(impatient))


# -- pages -----------------------------------------------------------------------------------------------------------


async def test_a_page_is_opened_once_per_key_and_reported_in_its_present_state(world: World) -> None:
    order = world.order(lines=(Line("Seat", Money(10000, "EUR"), quantity=3), Line("Fee", Money(600, "EUR"))))
    first = await world.service.open(order, key="page:1")
    again = await world.service.open(order, key="page:1")
    assert isinstance(first, PaymentReport)
    assert isinstance(again, PaymentReport)
    assert (first.state, first.payment_id) == ("open", order.payment_id)
    assert first.url
    assert first.page
    assert (again.page, again.url) == (first.page, first.url)
    world.buy(first.page)
    now = await world.service.open(order, key="page:1")
    assert isinstance(now, PaymentReport)
    assert (now.page, now.state) == (first.page, "paid" if world.is_stripe else "approved")


@pytest.mark.parametrize("fault", ["drop_after_send", "hang", "break_next", "fail_next"])
async def test_a_page_whose_answer_was_lost_is_the_same_page(world: World, fault: str) -> None:
    order = world.order()
    match fault:
        case "hang":
            world.sim.hang(act=True, on=world.creates["page"])
        case "break_next" if world.is_stripe:
            world.sim.break_next()
        case "break_next":
            pytest.skip("PayPal stores no failures")
        case _:
            getattr(world.sim, fault)(on=world.creates["page"])
    lost = await (world.impatient if fault == "hang" else world.service).open(order, key="page:1")
    assert isinstance(lost, Unknown | Refused)
    found = await world.service.open(order, key="page:1")
    assert isinstance(found, PaymentReport), found
    books = world.sim.books
    assert list(books.sessions if world.is_stripe else books.orders) == [found.page]


async def test_paying_reports_the_charge_and_the_money_once_and_in_every_way(world: World) -> None:
    paid = await world.paid()
    assert paid.page is not None
    assert paid.received == Money(10600, "EUR")
    read = await world.service.read(paid.page)
    again = await world.service.capture(paid.page, key="another key")
    for report in (read, again):
        assert isinstance(report, PaymentReport)
        assert (report.state, report.charge, report.received, report.payment_id) == (
            "paid", paid.charge, paid.received, paid.payment_id,
        )  # fmt: skip
    told = [fact for fact in await world.facts() if isinstance(fact, PaymentReport) and fact.state == "paid"]
    assert {(fact.charge, fact.received, fact.payment_id) for fact in told} == {
        (paid.charge, paid.received, paid.payment_id)
    }
    assert all(fact.at is not None for fact in told)


async def test_a_closed_page_cannot_be_paid_and_a_paid_page_is_not_closed(world: World) -> None:
    page = (await world.opened()).page
    assert page is not None
    closed = await world.service.close(page, key="close:1")
    assert isinstance(closed, PaymentReport)
    if world.service.needs_capture:
        assert closed.state == "open"
    else:
        assert closed.state == "expired"
        world.buy(page)
        assert world.sim.books.charges == {}
        again = await world.service.close(page, key="close:2")
        assert isinstance(again, PaymentReport)
        assert again.state == "expired"
    paid = await world.paid()
    assert paid.page is not None
    late = await world.service.close(paid.page, key="close:3")
    assert isinstance(late, PaymentReport)
    assert (late.state, late.charge) == ("paid", paid.charge)


async def test_what_the_service_does_not_have_is_absent(world: World) -> None:
    for page in ("cs_test_unknown", "UNKNOWN1"):
        assert await world.service.read(page) == Absent()
        assert await world.service.close(page, key=f"c:{page}") == Absent()
    assert await world.service.read_refund("re_unknown", charge="pi_unknown") == Absent()
    assert await world.service.list_refunds("pi_unknown") == Absent()
    order = RefundOrder(refund_id=uuid4(), payment_id=uuid4(), charge="pi_unknown", amount=None, reason="x")
    assert await world.service.refund(order, key="r:1", key_age_s=0.0) == Absent()
    assert await world.service.read_subscription("sub_unknown") == Absent()
    if not world.is_stripe:
        page = (await world.opened()).page
        world.sim.forget(page)
        assert await world.service.read(str(page)) == Absent()
        assert await world.service.capture(str(page), key="c") == Absent()


async def test_a_method_that_takes_days_is_processing_until_it_ends(world: World) -> None:
    for succeeded in (True, False):
        page = (await world.opened()).page
        assert page is not None
        if world.is_stripe:
            world.sim.pay_later(page)
        else:
            world.sim.books.next_capture_statuses.append("PENDING")
            world.sim.approve(page)
        waiting = await world.service.capture(page, key=f"c:{page}")
        assert isinstance(waiting, PaymentReport)
        assert waiting.state == "processing"
        if world.is_stripe:
            world.sim.end_late_payment(page, succeeded=succeeded)
        else:
            world.sim.end_capture(waiting.charge, succeeded=succeeded)
        ended = await world.service.read(page)
        assert isinstance(ended, PaymentReport)
        assert (ended.state, ended.is_open) == ("paid" if succeeded else "declined", False)
        states = [each.state for each in await world.facts() if isinstance(each, PaymentReport) and each.page == page]
        assert states[-1] == ended.state


async def test_a_decline_is_an_answer_and_the_buyer_may_try_again(world: World) -> None:
    opened = await world.opened()
    assert opened.page is not None
    if world.is_stripe:
        world.sim.decline(opened.page)
        [declined] = [each for each in await world.facts() if isinstance(each, PaymentReport)]
        assert declined.payment_id == opened.payment_id
    else:
        world.sim.books.next_capture_statuses.append("INSTRUMENT_DECLINED")
        world.sim.approve(opened.page)
        declined = await world.service.capture(opened.page, key="c:1")
        assert isinstance(declined, PaymentReport)
    assert (declined.state, declined.is_open) == ("declined", True)
    world.buy(opened.page)
    paid = await world.service.capture(opened.page, key="c:2")
    assert isinstance(paid, PaymentReport)
    assert paid.state == "paid"


@pytest.mark.parametrize(
    "amount", [Money(1500, "JPY"), Money(50000, "HUF"), Money(12500, "TWD"), Money(5, "ISK"), Money(12340, "KWD")]
)
async def test_every_currency_class_is_paid_and_refunded_to_the_last_unit(world: World, amount: Money) -> None:
    if not world.service.amounts.takes(amount.currency):
        refused = await world.service.open(world.order(amount), key="k")
        assert isinstance(refused, Refused)
        assert refused.permanent
        return
    paid = await world.paid(amount)
    assert paid.received == amount
    step = world.service.amounts.step(amount.currency)
    part = Money(step, amount.currency)
    first, rest = await world.refund(paid, part), await world.refund(paid)
    assert (first.amount, rest.amount) == (part, Money(amount.amount - step, amount.currency))
    if step > 1:
        odd = await world.service.open(world.order(Money(amount.amount + 1, amount.currency)), key="odd")
        assert isinstance(odd, Refused)
        assert odd.permanent


# -- refunds ---------------------------------------------------------------------------------------------------------


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
    told = {each.reference: each for each in await world.facts() if isinstance(each, RefundReport)}
    assert {each.key for each in told.values()} == {"refund:part", "refund:rest"}
    assert {each.charge for each in told.values()} == {paid.charge}


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
    told = [each for each in await world.facts() if isinstance(each, RefundReport)]
    assert told[-1].state == ended.state
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


# -- disputes --------------------------------------------------------------------------------------------------------


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
    told = [each for each in await world.facts() if isinstance(each, DisputeReport) and each.reference == reference]
    assert {each.charge for each in told} == {charge}
    assert ended.state in {each.state for each in told}
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


async def test_an_inquiry_becomes_a_dispute_of_what_was_not_refunded(world: World) -> None:
    paid = await world.paid()
    reference = world.dispute(str(paid.charge), inquiry=True)
    await world.refund(paid, Money(600, "EUR"))
    world.sim.escalate_dispute(reference)
    world.sim.close_dispute(reference, won=False)
    listed = await world.service.list_disputes(str(paid.charge))
    assert isinstance(listed, Disputes)
    assert (listed.listed[0].state, listed.listed[0].withheld) == ("lost", Money(10000, "EUR"))


# -- what happened ---------------------------------------------------------------------------------------------------


async def test_events_are_listed_by_a_cursor_that_misses_none(world: World) -> None:
    paid = [await world.paid(Money(100 + number, "EUR")) for number in range(3)]
    first = await world.service.list_events(None, since=START)
    assert isinstance(first, EventPage)
    paid.append(await world.paid())
    second = await world.service.list_events(first.cursor, since=START)
    assert isinstance(second, EventPage)
    facts = [fact for page in (first, second) for reading in page.readings for fact in reading.facts]
    assert {each.charge for each in paid} <= {getattr(each, "charge", None) for each in facts}
    assert any(getattr(each, "charge", None) == paid[3].charge for r in second.readings for each in r.facts)
    empty = await world.service.list_events(None, since=datetime.now(UTC) + timedelta(days=1))
    assert isinstance(empty, EventPage)
    assert empty.cursor


async def test_more_than_a_page_of_events_is_read_to_the_end(world: World) -> None:
    paid = await world.paid()
    for _ in range(130):
        await world.refund(paid, Money(1, "EUR"))
    told = {each.reference for each in await world.facts() if isinstance(each, RefundReport)}
    assert told == set(world.sim.books.refunds)
    listed = await world.service.list_refunds(str(paid.charge))
    assert isinstance(listed, Refunds)
    assert len(listed.listed) == 130


async def test_a_cursor_that_the_service_has_forgotten_goes_on_from_the_time(world: World) -> None:
    await world.paid()
    page = await world.service.list_events("evt_forgotten" if world.is_stripe else None, since=START)
    assert isinstance(page, EventPage)
    assert page.readings


async def test_the_balance_names_the_charge_of_each_movement_and_the_fees(world: World) -> None:
    paid = await world.paid()
    refund = await world.refund(paid, Money(600, "EUR"))
    other = await world.paid()
    world.dispute(str(other.charge))
    page = await world.service.list_balance(None, since=START, until=datetime.now(UTC) + timedelta(hours=1))
    assert isinstance(page, BalancePage)
    lines = {(each.kind, each.charge): each for each in page.lines}
    assert set(lines) == {
        ("payment", paid.charge), ("refund", paid.charge), ("payment", other.charge), ("dispute", other.charge),
    }  # fmt: skip
    assert lines["payment", paid.charge].amount == paid.received
    assert lines["payment", paid.charge].fee.amount > 0
    assert lines["refund", paid.charge].amount == Money(-600, "EUR")
    assert lines["refund", paid.charge].source == refund.reference
    assert not page.has_more
    if paid.fee is not None:
        assert lines["payment", paid.charge].fee == paid.fee


async def test_payouts_are_movements_that_add_up(world: World) -> None:
    paid = await world.paid()
    if world.is_stripe:
        world.sim.end_payout(world.sim.pay_out("eur")["id"])
    else:
        capture = world.sim.books.captures[paid.charge]
        world.sim.withdraw(capture["seller_receivable_breakdown"]["net_amount"]["value"], "EUR")
    page = await world.service.list_balance(None, since=START, until=datetime.now(UTC) + timedelta(hours=1))
    assert isinstance(page, BalancePage)
    assert [each.kind for each in page.lines] == ["payment", "payout"]
    assert sum(each.amount.amount - each.fee.amount for each in page.lines) == 0


# -- other software on the same account ------------------------------------------------------------------------------


async def test_objects_of_other_software_carry_no_id_of_ours_and_unreadable_ones_give_no_fact(world: World) -> None:
    if world.is_stripe:
        foreign = world.sim.books.new_session(
            {
                "mode": "payment",
                "success_url": "https://else.example",
                "metadata": {"appointment_id": str(uuid4()), "onceward_payment": "summer-gala"},
                "line_items": {"0": {"price_data": {"currency": "eur", "unit_amount": "500"}}},
            },
            pages_url="https://else.example",
        )
        world.sim.pay(foreign["id"])
        odd = {"id": "re_1", "object": "refund", "status": "new", "amount": 5, "currency": "isk", "charge": "ch_1"}
        event: dict[str, Any] = {"id": "evt_1", "type": "refund.created", "data": {"object": odd}}
    else:
        unit = {"custom_id": "summer-gala", "amount": {"currency_code": "EUR", "value": "5.00"}}
        order = world.sim._create_order(None, {"purchase_units": [unit]})
        world.sim.approve(order["id"])
        odd = {"id": "R1", "status": "NEW", "amount": {"currency_code": "JPY", "value": "5.50"}}
        event = {"id": "WH-1", "event_type": "PAYMENT.CAPTURE.REFUNDED", "resource": odd}
    facts = await world.facts()
    assert facts
    assert {each.payment_id for each in facts if isinstance(each, PaymentReport)} == {None}
    kind = event.get("type") or event["event_type"]
    assert world.service.read_event(kind, event).facts == ()
    assert world.service.read_event("something.else", event).facts == ()
    if world.is_stripe:
        odd["metadata"] = {"onceward_payment": str(uuid4())}
    else:
        odd["custom_id"] = str(uuid4())
    with pytest.raises(ValueError, match=kind):
        world.service.read_event(kind, event)


# -- Stripe alone: instalments and connected accounts ----------------------------------------------------------------


async def test_instalments_are_reported_until_the_subscription_has_ended(world: World) -> None:
    if not world.service.takes_instalments:
        assert isinstance(await world.service.open(world.order(instalments=InstalmentOrder(3)), key="k"), Refused)
        return
    order = world.order(instalments=InstalmentOrder(3))
    page = await world.service.open(order, key="k")
    assert isinstance(page, PaymentReport)
    world.sim.pay(page.page)
    started = await world.service.read(str(page.page))
    assert isinstance(started, PaymentReport)
    assert started.state == "paid"
    assert started.subscription is not None
    assert started.charge is None
    failed = world.sim.renew(started.subscription, declined=True)
    late = await world.service.read_subscription(started.subscription)
    assert isinstance(late, SubscriptionReport)
    assert (late.state, late.payment_id) == ("late", order.payment_id)
    owed = await world.service.read_invoice(failed["id"])
    assert isinstance(owed, InvoiceReport)
    assert (owed.state, owed.is_first, owed.amount) == ("failed", False, order.amount)
    world.sim.retry_invoice(failed["id"])
    invoices = await world.service.list_invoices(started.subscription)
    assert isinstance(invoices, tuple)
    assert [(each.state, each.is_first, each.payment_id) for each in invoices] == [
        ("paid", True, order.payment_id), ("paid", False, order.payment_id),
    ]  # fmt: skip
    assert all(each.charge for each in invoices)
    world.sim.give_up_subscription(started.subscription, "unpaid")
    ending = await world.service.end_subscription(started.subscription, key="end:1", with_period=True)
    assert isinstance(ending, SubscriptionReport)
    assert (ending.state, ending.ends_with_period) == ("unpaid", True)
    for key in ("end:2", "end:2", "end:3"):
        ended = await world.service.end_subscription(started.subscription, key=key, with_period=key == "end:3")
        assert isinstance(ended, SubscriptionReport)
        assert ended.state == "ended"
    facts = await world.facts()
    assert [each.state for each in facts if isinstance(each, InvoiceReport)] == ["paid", "failed", "paid"]
    states = [each.state for each in facts if isinstance(each, SubscriptionReport)]
    assert states[-1] == "ended"
    assert {"late", "unpaid"} <= set(states)
    assert not [each for each in facts if isinstance(each, PaymentReport) and each.charge is not None]


async def test_a_connected_account_sees_its_own_objects_and_names_itself_in_events(
    client: ServiceClient, world: World
) -> None:
    if not world.is_stripe:
        with pytest.raises(ValueError, match="connected"):
            type(world.service).connect(PayPal(client, client_id="i", client_secret="s"), connected_account="acct_1")
        return
    caller = Stripe(client, "sk_test_1", world.sim.url)
    connected = type(world.service).connect(caller, connected_account="acct_1")
    shop = World(connected, world.sim, connected)
    paid = await shop.paid()
    assert await world.service.read(str(paid.page)) == Absent()
    assert await world.service.list_refunds(str(paid.charge)) == Absent()
    page = await shop.service.list_events(None, since=START)
    assert isinstance(page, EventPage)
    assert {each.account for each in page.readings} == {"acct_1"}
    assert await world.facts() == []
