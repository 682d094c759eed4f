"""One W3C trace joins a caller, its webhook or request, the event, the job and the delivery, and goes on at the receiver.

The spans are read at an OTLP receiver, as a tracing backend gets them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import opentelemetry.trace
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from onceward import Event, Job, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.inbox.signed_samples import compose
from onceward.inbox.sources import NewSource, add
from onceward.outbox import EndpointFields
from onceward.telemetry import tracing
from onceward.telemetry.caller import calling
from onceward.testing import until
from onceward.webhooks.provider import SourceConfig
from tests.web.operating import client_for, started

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STATE = "vendor=abc"


def make_app() -> Onceward:
    app = Onceward("shop")
    app.event_type("order.packed", sample={"order": 1})

    @app.on("checkout", "order.paid")
    async def paid(event: Event, tx: Tx) -> None:  # pyright: ignore[reportUnusedFunction]
        await tx.enqueue(pack, order=7)

    @app.job
    async def pack(tx: Tx, *, order: int) -> None:
        await tx.publish("order.packed", {"order": order})

    @app.job
    async def refuse(tx: Tx) -> None:  # pyright: ignore[reportUnusedFunction]
        raise Permanent("the card of ada@example.org is refused")

    return app


class Receiver:
    """An OTLP receiver, and beside it the endpoint of a customer that keeps the headers of its requests."""

    def __init__(self) -> None:
        self.exports: list[ExportTraceServiceRequest] = []
        self.delivered: list[dict[str, str]] = []

    async def traces(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        self.exports.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response()

    async def hook(self, request: web.Request) -> web.Response:
        self.delivered.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response()

    async def spans(self, trace: str) -> list[Span]:
        """Return the spans of one trace that have arrived so far."""
        await asyncio.to_thread(opentelemetry.trace.get_tracer_provider().force_flush)  # pyright: ignore
        found = [
            span
            for export in self.exports
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return [span for span in found if span.trace_id.hex() == trace]


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.add_routes([web.post("/v1/traces", receiver.traces), web.post("/hook", receiver.hook)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = site.name  # pyright: ignore
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", site.name)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-web")
    monkeypatch.setattr(tracing._Tracing, "tracer", None)
    # The provider of OpenTelemetry can be set once in a process.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER_SET_ONCE._done", False)
    tracing.configure_tracing(service="onceward", environment="test", version="1")
    yield receiver
    await asyncio.to_thread(opentelemetry.trace.get_tracer_provider().shutdown)  # pyright: ignore
    await runner.cleanup()


def by_name(spans: list[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans}


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_a_senders_trace_goes_on_to_the_customers_endpoint(
    db: Database, database_url: str, receiver: Any, mode: Any
) -> None:
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    try:
        context = process.context
        async with db.transaction(role="engine") as tx:
            source = NewSource(name="checkout", provider="standard", secrets=(SECRET,), mode=mode)
            await add(tx, context.box, source, actor="test")
        fields = EndpointFields(url=f"{receiver.url}/hook", events=["order.packed"])
        await context.engine.endpoints.register(None, fields, actor="test")
        request = compose(SourceConfig(provider="standard", secrets=(SECRET,)), "order.paid", path="/webhooks/checkout")
        headers = {**request.headers, "traceparent": f"00-{trace}-{caller}-01", "tracestate": STATE}

        async def accepted() -> bool:
            async with (
                aiohttp.ClientSession(process.web.url) as http,
                http.post("/webhooks/checkout", data=request.body, headers=headers) as response,
            ):
                return response.status == 200

        await until(accepted)  # the source is known a moment after its commit
        expected = {"POST /webhooks/{source}", "process pack", "process outbox.deliver", "POST"}

        async def arrived() -> Any:
            found = by_name(await receiver.spans(trace))
            return found if expected <= set(found) else None

        found = await until(arrived)
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        async with aiohttp.ClientSession(process.web.url) as http, http.get("/metrics", headers=accept) as response:
            exposed = list(text_string_to_metric_families(await response.text()))
    finally:
        await process.stop()
    exemplars = {
        sample.name
        for family in exposed
        for sample in family.samples
        if sample.exemplar is not None and sample.exemplar.labels == {"trace_id": trace}
    }
    assert {
        f"onceward_{name}_seconds_bucket" for name in ("webhook_receive", "webhook_processing", "work")
    } <= exemplars
    received, pack, deliver, post = (
        found[name] for name in ("POST /webhooks/{source}", "process pack", "process outbox.deliver", "POST")
    )
    assert received.parent_span_id.hex() == caller
    handled = received
    if mode == "ack":
        [handled] = [span for name, span in found.items() if attributes(span).get("onceward.kind") == "event"]
        assert handled.parent_span_id.hex() == caller
    assert pack.parent_span_id == handled.span_id
    assert deliver.parent_span_id == pack.span_id
    assert post.parent_span_id == deliver.span_id
    [delivered] = receiver.delivered
    assert delivered["traceparent"] == f"00-{trace}-{post.span_id.hex()}-01"
    assert delivered["tracestate"] == STATE
    kinds = [span.kind for span in (received, pack, deliver, post)]
    assert kinds == [Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CONSUMER, Span.SPAN_KIND_CONSUMER, Span.SPAN_KIND_CLIENT]
    assert attributes(received)["http.response.status_code"] == 200
    assert attributes(post)["http.request.method"] == "POST"
    assert attributes(post)["server.address"] == "127.0.0.1"
    assert "/hook" not in str(post), "a path may contain a secret"
    assert attributes(pack)["messaging.system"] == "onceward"
    assert attributes(pack)["messaging.destination.name"] == "pack"
    [resource] = {str(each.resource) for export in receiver.exports for each in export.resource_spans}
    assert "shop-web" in resource
    assert "deployment.environment.name" in resource


async def test_a_request_continues_the_trace_of_its_caller_and_a_failure_shows_no_message(
    db: Database, database_url: str, receiver: Any
) -> None:
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    try:
        async with aiohttp.ClientSession(process.web.url) as http:
            client = await client_for(db, http, "ours")
            fields = EndpointFields(url=f"{receiver.url}/hook", events=["order.packed"])
            await process.context.engine.endpoints.register(client.organization, fields, actor="test")
            headers = {"Authorization": f"Bearer {client.key}", "traceparent": f"00-{trace}-{caller}-01"}
            body = {"type": "order.packed", "data": {"order": 1}}
            async with http.post("/api/v1/publish", json=body, headers=headers) as response:
                assert response.status == 201
            # From SQL, as a program in another language does it.
            await db.execute("select onceward.enqueue('refuse', trace => $1)", f"00-{trace}-{caller}-01 {STATE}")
            await until(lambda: receiver.delivered)

            async def arrived() -> Any:
                found = by_name(await receiver.spans(trace))
                return found if {"POST /api/v1/publish", "POST", "process refuse"} <= set(found) else None

            found = await until(arrived)
            for bad in ("00-" + "0" * 32 + f"-{caller}-01", "ff-" + trace + f"-{caller}-01", "nonsense"):
                async with http.get("/api/v1/event-types", headers={**headers, "traceparent": bad}) as response:
                    assert response.status == 200
    finally:
        await process.stop()
    assert found["POST /api/v1/publish"].parent_span_id.hex() == caller
    assert found["process outbox.deliver"].parent_span_id == found["POST /api/v1/publish"].span_id
    assert receiver.delivered[0]["traceparent"].split("-")[1] == trace
    assert attributes(found["POST /api/v1/publish"])["http.route"] == "/api/v1/publish"
    refused = found["process refuse"]
    assert (refused.parent_span_id.hex(), refused.trace_state) == (caller, STATE)
    assert refused.status.code == 2
    assert attributes(refused)["error.type"] == "Permanent"
    assert "ada@example.org" not in str(receiver.exports)
    assert "GET /api/v1/event-types" not in found, "an invalid traceparent starts a trace of its own"


async def test_a_batch_belongs_to_the_first_trace_and_is_linked_to_those_that_end_in_it(
    database_url: str, receiver: Any
) -> None:
    traces, callers = [secrets.token_hex(16) for _ in range(3)], [secrets.token_hex(8) for _ in range(3)]
    app = Onceward("shop")

    @app.job(batch=10)
    async def index(jobs: list[Job], tx: Tx) -> None:  # pyright: ignore[reportUnusedFunction]
        assert len(jobs) == 3

    process = await started(database_url, roles=set(), app=app)
    try:
        for trace, caller in zip(traces, callers, strict=True):
            with calling(trace=f"00-{trace}-{caller}-01"):
                await process.context.engine.enqueue(index, page=trace)
    finally:
        await process.stop()
    worker = await started(database_url, roles={"worker"}, app=app)

    async def arrived() -> Any:
        return by_name(await receiver.spans(traces[0])).get("process index")

    try:
        batch = await until(arrived)
    finally:
        await worker.stop()
    assert batch.parent_span_id.hex() == callers[0]
    linked = {(link.trace_id.hex(), link.span_id.hex()) for link in batch.links}
    assert linked == set(zip(traces[1:], callers[1:], strict=True))
    for trace in traces[1:]:
        assert await receiver.spans(trace) == [], "they end in the batch; nothing goes on in them"


def test_only_sampled_traces_are_exemplars() -> None:
    trace = secrets.token_hex(16)
    assert tracing.trace_id_of(f"00-{trace}-{'1' * 16}-01") == trace
    assert tracing.trace_id_of(f"00-{trace}-{'1' * 16}-00") is None
    assert tracing.trace_id_of("nonsense") is None


async def test_without_tracing_nothing_is_stored_or_sent(db: Database, database_url: str) -> None:
    process = await started(database_url, roles=set(), app=make_app())
    try:
        async with process.context.engine.transaction() as tx:
            await tx.publish("order.packed", {"order": 1})
        assert await db.fetchval("select trace from onceward.published") is None
        assert tracing.outgoing_headers() == {}
    finally:
        await process.stop()
