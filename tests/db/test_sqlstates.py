"""Every SQLSTATE of our own has one meaning, and the table says who raises and who catches it."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg

from onceward import Job, Onceward, Tx
from onceward.db import Database
from onceward.feature import resolve
from onceward.runtime import FEATURES
from onceward.trust.sqlstates import NEEDS_ORGANIZATION
from tests.engines import Bench

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"\bOW[0-9]{3}\b")
GIVEN = re.compile(r"errcode\s*=\s*'(\w+)'|raise\s+sqlstate\s+'(\w+)'", re.IGNORECASE)


STATES = [(feature.name, state) for feature in FEATURES if feature.sqlstates for state in resolve(feature.sqlstates)]


def files(suffix: str) -> list[Path]:
    return sorted(path for top in ("onceward", "apps") for path in (ROOT / top).rglob(f"*{suffix}"))


def test_no_code_is_declared_twice() -> None:
    codes = [state.code for _, state in STATES]
    assert sorted(codes) == sorted(set(codes))
    assert len({state.meaning for _, state in STATES}) == len(STATES)


def test_every_code_that_our_sql_raises_is_declared_by_a_feature() -> None:
    raised = {code for path in files(".sql") for code in OURS.findall(path.read_text(encoding="utf-8"))}
    assert raised == {state.code for _, state in STATES}


def test_a_feature_declares_the_codes_that_its_own_sql_raises() -> None:
    for owner, state in STATES:
        own = [
            path
            for path in (ROOT / "onceward" / owner).rglob("*.sql")
            if state.code in path.read_text(encoding="utf-8")
        ]
        assert own, f"{owner} declares {state.code}, which its SQL does not raise"


def test_every_other_code_that_our_sql_raises_is_one_of_postgresql() -> None:
    known = {getattr(each, "sqlstate", None) for each in vars(asyncpg.exceptions).values()}
    for path in files(".sql"):
        for code in (first or second for first, second in GIVEN.findall(path.read_text(encoding="utf-8"))):
            # A condition by its name is looked up by PostgreSQL when the function is made.
            assert code in known or OURS.fullmatch(code) or re.fullmatch(r"[a-z_]+", code), f"{path}: {code}"


async def test_work_that_needs_an_organization_and_has_none_fails_with_that_reason(db: Database) -> None:
    """It is a failed attempt, not a lost lease: with the same code it ran again every minute, uncounted, for ever."""
    app = Onceward("t")
    runs: list[int] = []

    @app.job(max_attempts=1)
    async def claim(job: Job, tx: Tx) -> None:
        runs.append(job.id)
        await tx.execute("select onceward.required_organization()")

    bench = Bench(db, app)
    await bench.start()
    job = await bench.engine.enqueue(claim)
    await bench.start_worker()
    try:
        finished = await bench.engine.wait(job.id, timeout=20)
    finally:
        await bench.stop()
    assert finished.outcome == "dead_letter"
    assert finished.error is not None
    assert finished.error["sqlstate"] == NEEDS_ORGANIZATION
    assert runs == [job.id]


async def test_a_lost_lease_that_a_handlers_own_statement_reports_is_its_failure(db: Database) -> None:
    app = Onceward("t")

    @app.job(max_attempts=1)
    async def report(tx: Tx) -> None:
        await tx.execute("do $$ begin raise exception 'the lease of something else' using errcode = 'OW001'; end $$")

    bench = Bench(db, app)
    await bench.start()
    job = await bench.engine.enqueue(report)
    await bench.start_worker()
    try:
        assert (await bench.engine.wait(job.id, timeout=20)).outcome == "dead_letter"
    finally:
        await bench.stop()
