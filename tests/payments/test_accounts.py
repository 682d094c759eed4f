"""Accounts: events are routed by the account of their source, and only payments that we opened for it are touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integrations.stripe import StripeSimulator
from onceward.money import Money
from onceward.payments import Accept, Books, Instalments, Payment, Return
from onceward.payments.accounts import add_account
from onceward.payments.checks import CHECKS
from onceward.payments.erasers import ERASERS
from onceward.payments.errors import BooksDiffer
from onceward.payments.job_queue import REFUND
from onceward.payments.payouts import books_of
from onceward.testing import TestInbox, drain
from onceward.testing.webhook_inbox import BOX
from onceward.trust import create_organization
from onceward.trust.erase import erase
from tests.payments.conftest import Shop, Till

PAID = "payment_intent.succeeded"


class Stripe:
    """A shop whose organizations have accounts of their own at Stripe."""

    def __init__(self, db: Database, engine: Engine, app: Onceward, inbox: TestInbox, sim: StripeSimulator) -> None:
        self.db, self.engine, self.app, self.inbox, self.sim = db, engine, app, inbox, sim
        self.sold: list[Payment] = []

    async def tenant(self, connected: str | None = None) -> tuple[UUID, str]:
        """Add an organization with an account, and return it with the webhook source of the account."""
        slug = f"org-{uuid4().hex[:8]}"
        async with self.db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, slug, actor="test")).organization_id
            options: dict[str, Any] = {"secrets": ("whsec_x",)}
            if connected is not None:
                options = {"connected_account": connected, "source": "platform"}
            added = await add_account(
                tx, BOX, name="main", service="stripe", organization=organization, slug=slug, actor="test", **options
            )
        return organization, added.path.rsplit("/", 1)[-1]

    async def open(self, organization: UUID, order: str = "1") -> UUID:
        async with self.engine.transaction(organization=organization) as tx:
            page = await tx.payments.open(
                "order", order, amount=Money(5000, "EUR"), title="Seat", account="main", success_url="https://a.example"
            )
        return page.payment_id

    async def report(self, source: str, payment_id: object, *, account: str | None = None, **metadata: str) -> None:
        """Deliver the event of a payment that succeeded, as it arrives at this source."""
        fields: dict[str, Any] = {"metadata": {"onceward_payment": str(payment_id), **metadata}}
        payload = self.inbox_payload(fields)
        if account is not None:
            payload["account"] = account
        from onceward.inbox.event import StoredEvent
        from onceward.payments.events import apply_event

        async with self.db.transaction(role="engine") as tx:
            owner = await tx.fetchval("select organization_id from onceward.sources where name = $1", source)
        event = StoredEvent(1, uuid4(), uuid4(), "evt", "stripe", PAID, payload, {}, owner, None, source)  # pyright: ignore[reportArgumentType]
        async with self.engine.transaction(organization=owner) as tx:
            self.result = await apply_event(event, tx)

    def inbox_payload(self, fields: dict[str, Any]) -> dict[str, Any]:
        from onceward.webhooks.registry import get_provider

        payload = get_provider("stripe").sample(PAID)
        payload["data"]["object"] |= {"amount": 5000, "amount_received": 5000, "currency": "eur", **fields}
        return payload


@pytest.fixture
async def stripe(db: Database) -> AsyncIterator[Stripe]:
    app = Onceward("shop")
    engine = Engine(db, app.registry)
    made: list[Stripe] = []

    @app.payments.on_paid("order")
    async def sell(payment: Payment, tx: Tx) -> Accept | Return:
        made[0].sold.append(payment)
        return Accept()

    await engine.start()
    async with StripeSimulator(retry_delays_s=()) as sim, TestInbox(engine, app) as inbox:
        app.services.simulate("stripe", sim.url)
        made.append(Stripe(db, engine, app, inbox, sim))
        yield made[0]
    await engine.stop()
    await app.services.aclose()


async def test_a_tenant_cannot_report_the_sales_of_another(stripe: Stripe) -> None:
    ours, source = await stripe.tenant()
    _, theirs = await stripe.tenant()
    payment_id = await stripe.open(ours)
    await stripe.report(theirs, payment_id)
    assert stripe.result == {"payments": ["foreign"]}
    await stripe.report(source, payment_id)
    assert stripe.result == {"payments": ["paid"]}
    assert [each.organization for each in stripe.sold] == [ours]


async def test_payments_of_other_software_are_left_alone(stripe: Stripe) -> None:
    _, source = await stripe.tenant()
    for id, metadata in (("", {"appointment_id": str(uuid4())}), ("summer-gala", {"event_id": "x"}), (uuid4(), {})):
        await stripe.report(source, id, **metadata)
        assert stripe.result["payments"] in ([], ["foreign"])
    assert stripe.sold == []
    async with stripe.db.transaction(role="engine") as tx:
        assert await tx.fetchval("select count(*) from onceward.work where task = $1", REFUND) == 0


async def test_a_connected_account_is_named_by_its_events(stripe: Stripe) -> None:
    first, source = await stripe.tenant("acct_1")
    await stripe.tenant("acct_2")
    payment_id = await stripe.open(first)
    for account, result in (("acct_2", "foreign"), (None, None), ("acct_1", "paid")):
        await stripe.report(source, payment_id, account=account)
        assert stripe.result == {"payments": ["foreign" if result is None else result]}


async def test_the_source_of_an_account_is_handled(stripe: Stripe) -> None:
    """An event that arrives over HTTP, signed with the account's own secret, sells."""
    organization, source = await stripe.tenant()
    payment_id = await stripe.open(organization)
    await stripe.inbox._inbox.catalog.refresh()  # pyright: ignore[reportPrivateUsage]
    from onceward.webhooks.provider import SourceConfig

    stripe.inbox._configs[source] = SourceConfig(provider="stripe", secrets=("whsec_x",))  # pyright: ignore[reportPrivateUsage]
    payload = stripe.inbox_payload({"metadata": {"onceward_payment": str(payment_id)}})
    response = await stripe.inbox.post(payload, source=source)
    assert response.status == 200
    await drain(stripe.engine)
    assert [each.id for each in stripe.sold] == [payment_id]


async def test_money_of_an_erased_person_is_returned(till: Till) -> None:
    page = await till.open(email="ada@example.org")
    at_service = await till.page(page)
    till.world.pay(at_service, slow=True)
    await till.deliver()
    await erase(till.db, "ada@example.org", ERASERS, organization=till.organization, actor="test")
    till.world.debit(at_service, success=True)
    await till.deliver()
    await till.work()
    assert "paid" not in till.shop.words
    assert await till.cash() == {"EUR": 0} == till.world.balance()


async def test_a_second_page_that_is_paid_after_an_erasure_goes_back(till: Till) -> None:
    """The second charge is a payment of its own, and of the same erased person."""
    page = await till.open(email="ada@example.org", expires=timedelta(days=3))
    first = await till.page(page)
    till.world.expire(first)
    await till.deliver()
    till.world.pay(await till.page(page))
    await till.deliver()
    assert till.shop.words == ["paid"]
    await erase(till.db, "ada@example.org", ERASERS, organization=till.organization, actor="test")
    till.world.pages[first]["state"] = "open"  # it was paid just before it ended, and the service reports it late
    till.world.pay(first)
    await till.deliver()
    await till.work()
    assert till.shop.words == ["paid", "refund done"]
    async with till.tx() as tx:
        _, second = await tx.payments.of("order", "1")
    assert (second.decision, second.reason, second.status) == ("returned", "erased", "refunded")
    assert await till.cash() == {"EUR": 10600} == till.world.balance()


async def test_an_instalment_after_an_erasure_goes_back(till: Till) -> None:
    page = await till.open(email="ada@example.org", amount=5000, instalments=Instalments(3))
    till.world.pay(await till.page(page))
    [subscription] = till.world.subscriptions
    await till.deliver()
    await erase(till.db, "ada@example.org", ERASERS, organization=till.organization, actor="test")
    till.world.bill(subscription)  # before the reconciliation has ended the subscription
    await till.deliver()
    await till.work()
    async with till.tx() as tx:
        first, second = await tx.payments.of("order", "1")
    assert (first.status, second.reason, second.status) == ("paid", "erased", "refunded")
    assert await till.cash() == {"EUR": 5000} == till.world.balance()


PLANTS = {
    "payment": "update onceward.payments set received = received + 1, refunded = refunded + 1",
    "refund": "update onceward.payments set refunded = refunded + 1",
    "dispute": "insert into onceward.payment_journals select max(journal_id) + 1, organization_id, payment_id, null, 'dispute',"
    " -4000, 'cash' from onceward.payment_journals group by 2, 3",
    "fee": "insert into onceward.payment_fees (account_id, reference, organization_id, payment_id, amount, currency, taken_at)"
    " select account_id, 'bt_1', organization_id, id, fee + 1, 'EUR', onceward.now() from onceward.payments;"
    " update onceward.payments set fee_read_at = onceward.now()",
    "fee of the account": "insert into onceward.payment_fees (account_id, reference, organization_id, amount, currency, taken_at)"
    " select account_id, 'bt_1', organization_id, 50, 'EUR', onceward.now() from onceward.payments",
    "payout": "insert into onceward.payment_payouts (organization_id, account_id, reference, status, amount, currency, booked)"
    " select organization_id, account_id, 'po_1', 'paid', 500, 'EUR', 500 from onceward.payments",
    "payout that failed": "with added as (insert into onceward.payment_payouts"
    " (organization_id, account_id, reference, status, amount, currency, booked)"
    " select organization_id, account_id, 'po_1', 'failed', 500, 'EUR', 500 from onceward.payments returning *)"
    " insert into onceward.payment_journals select 1, organization_id, null, id, 'payout', -500, 'cash' from added",
    "no end": "update onceward.payments set ask_at = null, status = 'open'",
}


@pytest.mark.parametrize("planted", PLANTS)
async def test_verify_finds_what_was_booked_twice_or_has_no_end(till: Till, planted: str) -> None:
    await till.buy()
    dispute = till.world.dispute(next(iter(till.world.charges)), amount=4000)
    till.world.move_dispute(dispute, "lost")
    await till.deliver()
    async with till.db.acquire() as conn:
        assert [problem for check in CHECKS for problem in await check.run(conn)] == []
        await conn.execute(PLANTS[planted])
        problems = [problem for check in CHECKS for problem in await check.run(conn)]
    assert problems


async def test_apps_whose_books_differ_do_not_start_together(shop: Shop) -> None:
    """Payouts would be booked nowhere: nobody would know whose cash they are."""
    other = Onceward("other")

    @other.payments.on_paid("course")
    async def enrol(payment: Payment, tx: Tx) -> Accept:
        return Accept()

    other.payments.books(Books(revenue="courses", kinds={"tax": "liability"}))
    shop.app.include(other)
    books = books_of(shop.app.registry.payments.subjects)
    assert books is not None
    assert (books.cash, books.bank) == ("cash", "bank")
    other.payments.books(Books(cash="cash_of_courses"))
    with pytest.raises(BooksDiffer, match="cash_of_courses"):
        books_of(shop.app.registry.payments.subjects)
