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
