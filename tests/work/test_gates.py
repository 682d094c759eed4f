"""A crash between any two statements of run and commit equals an undisturbed run."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database
from onceward.testing import crash_test

app = Onceward("gates")


@app.job
async def first(job: Job, tx: Tx, *, n: int) -> int:
    await tx.execute("insert into effects values ('first', $1)", n)
    await tx.enqueue(second, n=n)
    await tx.enqueue(third.unique("only one"), n=n)
    return n


@app.job
async def second(tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects values ('second', $1)", n)


@app.job
async def third(tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects values ('third', $1)", n)


async def test_every_crash_point_gives_the_undisturbed_result(db: Database) -> None:
    await db.execute("create table effects (what text, n int); grant all on effects to onceward_app")
    engine = Engine(db, app.registry)

    async def observe() -> Any:
        effects = await db.fetch("select what, n from effects order by what, n")
        outcomes = await db.fetch("select task, outcome from onceward.attempts where outcome = 'success' order by task")
        left = await db.fetchval("select count(*) from onceward.work")
        return [tuple(row) for row in effects], [tuple(row) for row in outcomes], left

    async def reset() -> None:
        await db.execute("truncate effects, onceward.jobs, onceward.work, onceward.attempts, onceward.claims")

    async def arrange() -> None:
        await engine.enqueue(first, n=1)

    gates = await crash_test(engine, arrange=arrange, observe=observe, reset=reset)
    assert gates.count("before-commit") == 2  # the second and third job share a commit
    assert {"after-begin", "before-join", "after-join", "before-commit", "after-commit"} <= set(gates)


async def test_the_twin_with_effects_outside_the_transaction_does_not_survive_a_crash(db: Database) -> None:
    """The proof that the crash test can fail: an effect that is not written through `tx` happens twice."""
    await db.execute("create table effects (what text, n int); grant all on effects to onceward_app")
    careless = Onceward("careless")

    @careless.job
    async def outside(tx: Tx, *, n: int) -> None:
        await db.execute("insert into effects values ('outside', $1)", n)

    engine = Engine(db, careless.registry)

    async def observe() -> Any:
        return await db.fetchval("select count(*) from effects")

    async def reset() -> None:
        await db.execute("truncate effects, onceward.jobs, onceward.work, onceward.attempts, onceward.claims")

    async def arrange() -> None:
        await engine.enqueue(outside, n=1)

    with pytest.raises(AssertionError, match="a crash at gate"):
        await crash_test(engine, arrange=arrange, observe=observe, reset=reset)
