"""Any sequence of sales, debits, instalments, refunds, disputes, erasures and payouts, with webhooks in any order and answers
that are lost, against both simulators.

At the end the money at the service, in the ledger and in the states is the same, to the cent and in every currency class.
"""

from __future__ import annotations

import os

import pytest

from onceward.db import Database
from onceward.payments.checks import CHECKS
from tests.payments.model import Model, started

SEEDS = range(*map(int, os.environ.get("ONCEWARD_PAYMENT_SEEDS", "0:60").split(":")))
"""Which sequences the thorough case plays. Set `first:end` to play others."""
KEPT_TOO_MANY = """
select p.plan_id from onceward.payments p join onceward.payment_plans l on l.id = p.plan_id
 where p.decision = 'accepted' group by 1, l.count having count(*) > l.count
"""
KEPT_OF_ERASED = """
select p.id from onceward.payments p join onceward.payments e using (organization_id, subject_type, subject_id)
 where p.decision = 'accepted' and p.paid_at > e.erased_at
"""
ENDED = "select subscription from onceward.payment_plans where end_how is not null and subscription is not null"


@pytest.mark.timeout(3600)  # for the thorough case on a busy machine
@pytest.mark.parametrize("name", ["stripe", "paypal"])
async def test_the_money_agrees_after_any_sequence(db: Database, name: str, thorough: bool) -> None:
    for seed in SEEDS if thorough else (1, 2):
        async with started(db, name, seed) as model:
            seen = await play(model, 60 if thorough else 30)
            await compare(db, model, seen)


async def play(model: Model, count: int) -> list[str]:
    """Do steps by chance, and return their names."""
    await model.buy()
    seen: list[str] = []
    for _ in range(count):
        step = model.chance.choice(model.steps())
        seen.append(step.__name__)
        await step()
    await model.settle()
    return seen


async def compare(db: Database, model: Model, seen: list[str]) -> None:
    where = (model.name, model.seed, seen)
    checked = await model.check()
    assert (checked.failure, checked.differences, checked.in_progress) == (None, (), 0), where
    assert await model.in_ledger() == await model.at_service(with_payouts=True), where
    assert await model.in_states() == await model.at_service(with_payouts=False), where
    async with db.acquire() as conn:
        problems = [problem for check in CHECKS for problem in await check.run(conn)]
    assert problems == [], where
    assert (await model.check()).booked == 0, where
    async with model.tx() as tx:
        assert await tx.fetch(KEPT_TOO_MANY) == [], where
        assert await tx.fetch(KEPT_OF_ERASED) == [], where
        ended = [row["subscription"] for row in await tx.fetch(ENDED)]
    for each in ended:
        subscription = model.sim.billing.subscriptions[each]
        assert subscription["status"] == "canceled" or subscription["cancel_at_period_end"], (each, where)
