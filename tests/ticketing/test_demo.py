"""The demonstration: every fate a buyer can have ends well, and the books agree."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import verify
from onceward.work.settings import WorkSettings
from onceward_apps import all as bundled
from onceward_apps.ticketing import baskets, checkout_payments, checks
from onceward_apps.ticketing.demo import FATES, MAIN_EVENT, TicketingDemo
from onceward_apps.ticketing.store import views


async def refund_until_only_visitors_have_tickets(demo: TicketingDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    """However full the event is, the demo refunds its own buyers only."""
    event = demo.events[MAIN_EVENT]
    visitor = baskets.Buyer(email="visitor@example.com", name="Vi")
    checkout, _ = await demo._check_out(event, visitor)
    opened = await checkout_payments.open_payment(demo.engine, demo._org, checkout["id"], "stripe")
    demo.stripe.pay(opened.url.rsplit("/", 1)[-1])
    monkeypatch.setattr("onceward_apps.ticketing.demo.FULL_PERCENT", 0)

    async def with_tickets() -> set[str]:
        async with demo.engine.transaction(organization=demo._org) as tx:
            return {row["email"] for row in await views.checkouts(tx, event, "completed", 200)}

    async def only_the_visitor() -> bool:
        await demo._make_room(event)
        return await with_tickets() == {visitor.email}

    await until(lambda: only_the_visitor())
    await demo._make_room(event)
    assert await with_tickets() == {visitor.email}


async def test_every_kind_of_simulated_buyer_ends_with_correct_books(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8).using(
        WorkSettings(poll_interval_ms=100)
    )
    demos: list[TicketingDemo] = []

    def alone(context: Context) -> TicketingDemo:
        """Only the buyers below: among others one may pay twice as well, and get a refund of their own."""
        demos.append(TicketingDemo(context, crowd=False))
        return demos[-1]

    app = Onceward("demo")
    app.include(bundled.app)
    app.part("ticketing demo", alone)
    runtime = Process(app, settings, FEATURES)

    async def counts() -> tuple[int, int, int]:
        """Completed checkouts, refunds under way, and refunds the payment service has made."""
        [(completed, pending)] = await runtime.database.fetch(
            """select (select count(*) from ticketing.checkouts where status = 'completed'),
                      (select count(*) from onceward.payment_refunds where status in ('requested', 'sent', 'pending'))"""
        )
        return completed, pending, len(demos[0].stripe.books.refunds)

    await runtime.start()
    try:
        [demo] = demos
        await demo.set_up()  # as at a second start
        for fate, _ in FATES:
            if fate != "is late":  # takes a minute by design
                await demo.visit(fate)
        deadline = time.monotonic() + 20
        while (seen := await counts()) != (3, 0, 1) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert seen == (3, 0, 1)
        assert [result for result in await verify(runtime.database, checks.CHECKS) if not result.ok] == []
        await refund_until_only_visitors_have_tickets(demo, monkeypatch)
    finally:
        await runtime.stop()
