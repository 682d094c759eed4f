"""Request id, user, tier and organization go from a request to its jobs, their log lines, messages and spans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import aiohttp
import jwt
import pytest
import structlog
from fastapi import APIRouter, Depends
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database
from onceward.process.process import Process
from onceward.telemetry import get_logger, logs, tracing
from onceward.testing import until
from onceward.trust import create_organization
from onceward.web import Identity, engine_of, require
from tests.web.operating import started

SECRET = "a secret of the tests with at least 32 bytes"
log = get_logger("tests.shop")


def make_app() -> Onceward:
    app = Onceward("shop")
    router = APIRouter()

    @app.job(name="packs")
    async def packs(job: Job, tx: Tx, *, order: int) -> None:
        log.info("order.packed", order=order)
        await tx.enqueue(labels.unique(f"label:{order}"), order=order)
        await tx.send("notification", to="ada@example.org", key=f"packed:{order}", data={"title": "t", "body": "b"})

    @app.job(name="labels")
    async def labels(tx: Tx, *, order: int) -> None:
        log.info("order.labelled", order=order)

    @router.post("/orders/{order}")
    async def place(  # pyright: ignore[reportUnusedFunction]
        order: int,
        engine: Annotated[Engine, Depends(engine_of)],
        identity: Annotated[Identity, Depends(require("user"))],
    ) -> dict[str, int]:
        async with engine.transaction(organization=identity.organization) as tx:
            return {"job": (await tx.enqueue(packs, order=order)).id}

    app.routes(router)
    return app


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(
        database_url, roles={"web", "worker"}, app=make_app(), jwt_secret=SecretStr(SECRET), access_log=True
    )
    yield process
    await process.stop()


@pytest.fixture
def lines() -> Any:
    """Every log line as a mapping, with the fields of the context and of the running work."""
    collected = structlog.testing.LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, logs.name_work, collected])
    yield collected.entries
    structlog.configure(**before)


async def test_a_request_is_named_by_all_that_it_causes(db: Database, process: Process, lines: Any) -> None:
    assert process.web is not None
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "ours", actor="test")).organization_id
    claims = {"sub": "ada", "tier": "PRO", "organization_id": str(organization)}
    token = jwt.encode({**claims, "exp": datetime.now(UTC) + timedelta(hours=1)}, SECRET, algorithm="HS256")
    headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "req-7"}
    async with aiohttp.ClientSession(process.web.url) as http, http.post("/orders/7", headers=headers) as response:
        assert response.status == 200, await response.text()
    expected = {"request": "req-7", "user": "ada", "tier": "PRO"}

    async def labelled() -> Any:
        return [line for line in lines if line["event"] == "order.labelled"]

    [labelled_line] = await until(labelled)
    [packed_line] = [line for line in lines if line["event"] == "order.packed"]
    [answered] = [line for line in lines if line["event"] == "request.answered"]
    for line in (labelled_line, packed_line, answered):
        assert {name: line.get(name) for name in expected} == expected, line
        assert line["organization"] == str(organization)
    contexts = await db.fetch("select context from onceward.jobs union all select context from onceward.messages")
    assert [row["context"] for row in contexts] == [expected] * 3


async def test_work_without_a_request_stores_no_context(db: Database, process: Process) -> None:
    async with process.context.engine.transaction() as tx:
        await tx.execute("select onceward.enqueue('packs', '{\"order\": 1}')")

    async def done() -> bool:
        return await db.fetchval("select count(*) from onceward.attempts where task = 'labels'") == 1

    await until(done)
    assert await db.fetchval("select count(*) from onceward.jobs where context is not null") == 0


async def test_spans_of_jobs_belong_to_the_trace_of_the_request(
    db: Database, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert process.web is not None
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing._Tracing, "tracer", provider.get_tracer("test"))
    claims = {"sub": "ada", "exp": datetime.now(UTC) + timedelta(hours=1)}
    headers = {"Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}
    async with aiohttp.ClientSession(process.web.url) as http, http.post("/orders/7", headers=headers) as response:
        assert response.status == 200, await response.text()

    names = {"POST /orders/{order}", "process packs", "process labels"}

    def spans() -> Any:
        found = {span.name: span for span in exporter.get_finished_spans()}
        return found if names <= set(found) else None

    found = await until(spans)
    assert len({found[name].context.trace_id for name in names}) == 1
    assert found["process packs"].attributes["onceward.user"] == "ada"
