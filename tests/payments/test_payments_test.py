"""`payments_test`: an app that is right passes every way; one that counts on the order of webhooks does not."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.money import Money
from onceward.payments import Accept, Books, Dispute, Page, Payment, Return
from onceward.testing.payments import CASES, WAYS, payments_test
from onceward.trust import create_organization

TABLE = """
create table public.sold (id text primary key, sold int not null default 0, disputes text[] not null default '{}');
grant select, insert, update on public.sold to onceward_app;
"""


def shop(*, is_wrong: bool = False) -> Onceward:
    app = Onceward("kiosk")
    app.payments.books(Books())
    app.payments.account("stripe", service="stripe", source="kiosk-stripe")
    app.payments.account("paypal", service="paypal", source="kiosk-paypal")

    @app.payments.on_paid("chair")
    async def sell(payment: Payment, tx: Tx) -> Accept | Return:
        await tx.execute("update public.sold set sold = sold + 1 where id = $1", payment.subject_id)
        return Accept()

    @app.payments.on_disputed("chair")
    async def note(dispute: Dispute, tx: Tx) -> None:
        add = "update public.sold set disputes = disputes || $2::text where id = $1"
        if is_wrong or dispute.status in ("won", "lost"):
            await tx.execute(add, dispute.payment.subject_id, dispute.status)

    return app


async def run(db: Database, app: Onceward, *cases: str, service: str = "stripe") -> list[str]:
    await db.execute(TABLE)
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "kiosk", name="Kiosk", actor="test")).organization_id

    async def open(tx: Tx) -> Page:
        chair = uuid4().hex
        await tx.execute("insert into public.sold (id) values ($1)", chair)
        values: dict[str, Any] = {"title": "Chair", "account": service, "success_url": "https://shop.example/"}
        return await tx.payments.open("chair", chair, amount=Money(5000, "EUR"), **values)

    async def observe(tx: Tx, payment: Payment) -> Any:
        row: Any = await tx.fetchrow("select sold, disputes from public.sold where id = $1", payment.subject_id)
        return tuple(row)

    engine = Engine(db, app.registry)
    await engine.start()
    try:
        return await payments_test(
            engine, app, organization=organization, open=open, observe=observe, account=service, cases=cases or CASES
        )
    finally:
        await engine.stop()


@pytest.mark.parametrize(("service", "one"), [("stripe", "refunded"), ("paypal", "dispute lost")])
async def test_an_app_that_is_right_passes_every_way(db: Database, service: str, one: str, thorough: bool) -> None:
    cases = CASES if thorough else (one,)
    passed = await run(db, shop(), *cases, service=service)
    assert len(passed) == len(cases) * len(WAYS)


@pytest.mark.parametrize("service", ["stripe", "paypal"])
async def test_an_app_that_counts_on_the_order_of_webhooks_is_found(db: Database, service: str) -> None:
    with pytest.raises(AssertionError, match="dispute won, reversed: the result is"):
        await run(db, shop(is_wrong=True), "dispute won", service=service)


async def test_an_account_that_the_app_does_not_declare_is_refused(db: Database) -> None:
    with pytest.raises(AssertionError, match=r"declares no payment account cash: .* it declares stripe, paypal"):
        await run(db, shop(), service="cash")
