"""Run with `pytest`. The tests use a real PostgreSQL, which the first test starts, and a simulated Stripe."""

from onceward import Engine, Tx
from onceward.payments import Page, Payment
from onceward.testing import payments_test
from onceward.trust import create_organization

from project_name.app import app, open_order


async def test_an_order_is_sold_once_whatever_happens_to_webhooks_and_calls(onceward_engine: Engine) -> None:
    async with onceward_engine.db.transaction(role="engine") as tx:
        shop = await create_organization(tx, "shop", name="Shop", actor="test")

    async def open(tx: Tx) -> Page:
        return await open_order(tx, "Chair")

    async def observe(tx: Tx, payment: Payment) -> object:
        return await tx.fetchval("select state from orders where id = $1::text::uuid", payment.subject_id)

    passed = await payments_test(onceward_engine, app, organization=shop.organization_id, open=open, observe=observe)
    assert "refunded, late answers" in passed
