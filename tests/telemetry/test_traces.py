"""One trace joins the request of a webhook, its event, the job and the delivery that follow from it."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox.sending import compose
from onceward.inbox.sources import NewSource, add
from onceward.outbox import EndpointFields
from onceward.telemetry import tracing
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from onceward.webhooks.provider import SourceConfig
from tests.web.operating import started

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def make_app() -> Onceward:
    app = Onceward("shop")
    app.event_type("order.packed", sample={"order": 1})

    @app.on("checkout", "order.paid")
    async def paid(event: Event, tx: Tx) -> None:  # pyright: ignore[reportUnusedFunction]
        await tx.enqueue(pack, order=7)

    @app.job
    async def pack(tx: Tx, *, order: int) -> None:
        await tx.publish("order.packed", {"order": order})

    return app


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing._Tracing, "tracer", provider.get_tracer("test"))
    return exporter


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_request_event_job_and_delivery_are_one_trace(
    db: Database, database_url: str, exporter: InMemorySpanExporter, mode: Any
) -> None:
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    try:
        async with CustomerEndpoint() as customer:
            context = process.context
            async with db.transaction(role="engine") as tx:
                source = NewSource(name="checkout", provider="standard", secrets=(SECRET,), mode=mode)
                await add(tx, context.box, source, actor="test")
            await context.engine.endpoints.register(
                None, EndpointFields(url=customer.url, events=["order.packed"]), actor="test"
            )
            config = SourceConfig(provider="standard", secrets=(SECRET,))
            request = compose(config, "order.paid", path="/webhooks/checkout")

            async def accepted() -> bool:
                async with (
                    aiohttp.ClientSession(process.web.url) as http,
                    http.post("/webhooks/checkout", data=request.body, headers=dict(request.headers)) as response,
                ):
                    return response.status == 200

            await until(accepted)  # the source is known a moment after its commit

            def spans() -> Any:
                found = {span.name.split(" deliver")[0]: span for span in exporter.get_finished_spans()}
                kinds = {name.split()[0] for name in found}
                expected = {"webhook", "job", "delivery", *(["event"] if mode == "ack" else [])}
                return found if expected <= kinds else None

            found = await until(spans)
    finally:
        await process.stop()
    ours = [span for name, span in found.items() if name.split()[0] in ("webhook", "event", "job", "delivery")]
    assert len({span.context.trace_id for span in ours}) == 1, found
    by_kind = {span.name.split()[0]: span for span in ours}
    assert by_kind["delivery"].parent.span_id == by_kind["job"].context.span_id
    cause = by_kind["event" if mode == "ack" else "webhook"]
    assert by_kind["job"].parent.span_id == cause.context.span_id


async def test_without_tracing_nothing_is_stored(db: Database, database_url: str) -> None:
    process = await started(database_url, roles=set(), app=make_app())
    try:
        async with process.context.engine.transaction() as tx:
            await tx.publish("order.packed", {"order": 1})
        assert await db.fetchval("select trace from onceward.published") is None
    finally:
        await process.stop()
