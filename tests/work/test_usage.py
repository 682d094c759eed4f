"""How much each organization uses, for the ones that use most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Job, Onceward, Tx
from onceward.db import Database
from onceward.db.callers import Caller, calling_as
from onceward.telemetry.metrics import REGISTRY
from onceward.testing import until
from onceward.work import usage
from onceward.work.statements import FORGET_USAGE
from onceward.work.usage import Usage


def shown(of: str, organization: str) -> float | None:
    return REGISTRY.get_sample_value("onceward_organization_used_seconds", {"of": of, "organization": organization})


async def test_connections_and_handlers_count_for_their_organization(
    bench: Callable[[Onceward], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("used")
    own = Usage()
    monkeypatch.setattr("onceward.work.slots.USAGE", own)

    @app.job
    async def alone(job: Job) -> None: ...

    @app.job
    async def sharing(job: Job, tx: Tx) -> None: ...

    here = await bench(app)
    db: Database = here.db
    organization = uuid4()
    await db.execute(
        "insert into onceward.organizations (organization_id, slug, name) values ($1, 'acme', 'A')", organization
    )
    await own.show(db)
    for job in (alone, sharing):
        await here.engine.enqueue(job.for_organization(organization))
    await here.start_worker()
    await until(lambda: db.fetchval("select not exists (select from onceward.work)"))
    await until(lambda: _is_counted(own, organization))
    with calling_as(Caller(organization, "p")):
        await db.fetchval("select 1")
    with calling_as(Caller(hash("not known yet"), "p")):
        await db.fetchval("select 1")
    assert set(own.connections) == {organization}
    await own.show(db)
    assert (shown("work", "acme") or 0) > 0
    assert (shown("connections", "acme") or 0) > 0
    await own.show(db)
    assert shown("work", "acme") is None, "only what was used since the last look"


async def _is_counted(own: Usage, organization: UUID) -> bool:
    return organization in own.work


async def test_only_those_that_use_most_are_shown_and_kept(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_KEPT", 40)
    own = Usage()
    for n in range(100):
        own.worked(UUID(int=n), float(n))
    assert len(own.work) <= 40
    await own.show(db)
    found = {
        sample.labels["organization"]
        for metric in REGISTRY.collect()
        if metric.name == "onceward_organization_used_seconds"
        for sample in metric.samples
    }
    assert found == {str(UUID(int=n)) for n in range(90, 100)}


async def test_hours_add_up_over_processes_and_end_after_a_month(db: Database) -> None:
    acme = uuid4()
    await db.execute("insert into onceward.organizations (organization_id, slug, name) values ($1, 'acme', 'A')", acme)
    for _ in range(2):
        process = Usage()
        process.worked(acme, 1.5)
        process.worked(None, 1.0)
        process.held(acme, 0.5)
        await process.show(db)
    await Usage().show(db)  # nothing was used
    rows = [dict(row) for row in await db.fetch(usage.USED_LATELY, 24, 10)]
    assert [(row["organization"], row["handled"], row["work_s"], row["connections_s"]) for row in rows] == [
        ("acme", 2, 3.0, 1.0),
        (None, 2, 2.0, 0.0),
    ]
    assert [round(row["share"], 3) for row in rows] == [0.667, 0.333]
    await db.execute("update onceward.usage set hour = hour - interval '32 days' where organization_id is null")
    assert [await db.fetchval(FORGET_USAGE, 10) for _ in range(2)] == [1, 0]
    assert await db.fetchval("select count(*) from onceward.usage") == 1
