"""Invariants that can be checked on a live database, and the events the engine writes about itself."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from onceward.db import Connection, Database
from onceward.runtime import FEATURES
from onceward.trust import Check, record_metric, severity, verify
from onceward.trust.checks import CHECKS
from onceward.work import checks as work_checks


async def test_a_fresh_database_holds_every_invariant(db: Database) -> None:
    results = await verify(db, CHECKS)
    assert len(results) == len(CHECKS)
    assert [result for result in results if not result.ok] == []


async def test_work_without_a_body_and_jobs_that_vanished_are_found(db: Database) -> None:
    await db.execute("insert into onceward.work (id, kind, task, queue, sort_at) values (1, 'job', 't', 'q', now())")
    await db.execute("insert into onceward.jobs (id, task, args) values (2, 'gone', '{}')")
    found = {result.name: result.problems for result in await verify(db, work_checks.CHECKS) if not result.ok}
    assert found == {
        "work.job_has_a_body": ("work 1 (job) has no row in onceward.jobs",),
        "work.no_job_is_lost": ("job 2 (gone) is neither unfinished nor ended",),
    }


async def test_a_check_changes_nothing_and_its_own_failure_is_a_problem(db: Database) -> None:
    async def writes(conn: Connection) -> Sequence[str]:
        await conn.execute("delete from onceward.jobs")
        return []

    async def breaks(conn: Connection) -> Sequence[str]:
        await conn.execute("select 1/0")
        return []

    results = await verify(db, [Check("x.writes", writes), Check("x.breaks", breaks), *CHECKS[:1]])
    assert [result.ok for result in results] == [False, False, True]


def test_features_contribute_checks_with_names_of_their_own() -> None:
    found = [check for checks in FEATURES.load("checks") for check in checks]
    assert {check.name for check in CHECKS} <= {check.name for check in found}
    assert len({check.name for check in found}) == len(found)


# -- system_metrics ----------------------------------------------------------------------------------------------


async def test_events_are_written_by_the_engine_and_changed_by_nobody(db: Database) -> None:
    await record_metric(db, "worker_timeout", job_id=7, metadata={"deadline_s": 30})
    await record_metric(db, "concurrency_limit_hit", severity_name="CRITICAL")
    rows = await db.fetch("select event_type, severity, job_id from onceward.system_metrics order by event_type")
    assert [tuple(row) for row in rows] == [("concurrency_limit_hit", "fatal", None), ("worker_timeout", "error", "7")]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction() as tx:
            await record_metric(tx, "job_rollback")
    for statement in ("update onceward.system_metrics set severity = 'info'", "delete from onceward.system_metrics"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute(statement)


async def test_an_event_we_do_not_know_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        await record_metric(db, "something")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("info", "info"),
        ("warning", "warn"),
        ("WARN", "warn"),
        ("HIGH", "error"),
        ("critical", "fatal"),
        ("fatal", "fatal"),
    ],
)
def test_severities_have_one_stored_name(name: str, stored: str) -> None:
    assert severity(name) == stored


def test_an_unknown_severity_is_refused() -> None:
    with pytest.raises(ValueError, match="'loud'"):
        severity("loud")
