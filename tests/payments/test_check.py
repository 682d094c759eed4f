"""`onceward payments check`: what the service's balance and our tables do not agree about is found, stored and resolved."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from onceward import Onceward
from onceward.cli.commands import build
from onceward.db import Database
from onceward.money import Money
from onceward.payments.account_check import CheckedAccount, check_accounts
from onceward.payments.metrics import observe
from onceward.payments.service import RefundOrder
from onceward.runtime import FEATURES
from onceward.telemetry.metrics import REGISTRY
from tests.payments.model import Model, started

app = Onceward("checked")


async def check(model: Model) -> CheckedAccount:
    now = datetime.now(UTC)
    options: dict[str, Any] = {"since": now - timedelta(days=7), "settled_until": now + timedelta(minutes=1)}
    [checked] = await check_accounts(model.engine, model.app.services, name=model.account, **options)
    return checked


async def refund_by_hand(model: Model, row: Any) -> str:
    order = RefundOrder(
        refund_id=uuid4(), payment_id=row["id"], charge=row["charge"], amount=Money(10, row["currency"]), reason="test"
    )
    made: Any = await (await model.service()).refund(order, key=f"hand {row['id']}", key_age_s=0)
    return made.reference


async def test_differences_are_found_stored_and_resolved(
    db: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(db, "stripe", 0) as model:
        for _ in range(3):
            await model.buy()
        await model.settle()
        assert (await check(model)).differences == ()
        first, second, third = await model.payments()
        reference = await refund_by_hand(model, first)
        moved = {each["source"]: each for each in model.sim.balance.transactions.values()}
        charges = {each["payment_intent"]: each["id"] for each in model.sim.books.charges.values()}
        moved[charges[second["charge"]]]["amount"] += 30
        del model.sim.balance.transactions[moved[charges[third["charge"]]]["id"]]
        found = await check(model)
        assert {(each.kind, each.reference, each.payment_id) for each in found.differences} == {
            ("refund_not_here", reference, first["id"]),
            ("payment_amount", second["charge"], second["id"]),
            ("payment_not_at_service", third["charge"], third["id"]),
        }
        assert found.compared == 3

        # The same from the command line, with the time that reports may take.
        monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
        monkeypatch.setenv("ONCEWARD_SIMULATORS", f"stripe={model.sim.url}")
        arguments = ["payments", "check", "--json", "--app", f"{__name__}:app"]
        invoke = CliRunner().invoke
        run = await asyncio.to_thread(invoke, build(FEATURES), [*arguments, "--grace", "0s"])
        assert (run.exit_code, len(json.loads(run.stdout))) == (1, 3), run.output
        run = await asyncio.to_thread(invoke, build(FEATURES), arguments)
        assert (run.exit_code, json.loads(run.stdout)) == (0, []), run.output
        run = await asyncio.to_thread(invoke, build(FEATURES), [*arguments, "--account", "absent"])
        assert "no payment account 'absent'" in str(run.exception)

        await observe(db)
        assert REGISTRY.get_sample_value("onceward_payment_differences") == 3
        async with db.transaction(role="engine") as tx:
            open_ones = "select count(*) from onceward.payment_differences where resolved_at is null"
            assert await tx.fetchval(open_ones) == 3
            await tx.execute("update onceward.payments set ask_at = onceward.now()")
        await model.settle()  # the refund is found and booked
        await check(model)
        async with db.transaction(role="engine") as tx:
            resolved = "select reference from onceward.payment_differences where resolved_at is not null"
            assert await tx.fetchval(resolved) == reference
            assert await tx.fetchval(open_ones) == 2


async def test_an_account_that_cannot_be_listed_is_reported(db: Database) -> None:
    async with started(db, "stripe", 0) as model:
        await model.buy()
        model.app.services.simulate("stripe", "http://127.0.0.1:9")
        checked = await check(model)
        assert checked.failure is not None
        assert "cannot be listed" in checked.failure
