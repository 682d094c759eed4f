"""OpenTelemetry spans, if its packages are installed and tracing is switched on.

Exporters and sampling follow the standard `OTEL_*` variables. A trace goes on in other processes and at other times:
its text is the `traceparent` of W3C Trace Context and, after a space, the `tracestate` if there is one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Literal

from onceward.extras import extra

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = Mapping[str, str | int | float | bool]

TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
LONGEST_TRACE = 600


class _Tracing:
    """The tracer, or None while tracing is off. It is process-wide, like the provider of OpenTelemetry."""

    tracer: Any = None


class Recorded:
    """A span that is being recorded. Without tracing it ignores everything."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._span.set_attributes(attributes)

    def rename(self, name: str) -> None:
        """Give the span a name that was not known when it began, such as that of a route."""
        if self._span is not None:
            self._span.update_name(name)

    def fail(self, error: str) -> None:
        """Mark the span as failed. `error` is a class or a code; a message may contain a customer's data."""
        if self._span is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(_trace().StatusCode.ERROR)


UNRECORDED = Recorded()


def configure_tracing(*, service: str, environment: str, version: str) -> None:
    """Switch tracing on for the process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win over our own names."""
    with extra("otel", "ONCEWARD_TRACING=true"):
        trace = import_module("opentelemetry.trace")
        sdk = import_module("opentelemetry.sdk.trace")
        export = import_module("opentelemetry.sdk.trace.export")
        resources = import_module("opentelemetry.sdk.resources")
    identity = {"service.name": service, "deployment.environment.name": environment, "service.version": version}
    given = {pair.partition("=")[0].strip() for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")}
    if os.environ.get("OTEL_SERVICE_NAME"):
        given.add("service.name")
    ours = {name: value for name, value in identity.items() if name not in given}
    provider = sdk.TracerProvider(resource=resources.Resource.create(ours))
    if exporter := _exporter():
        provider.add_span_processor(export.BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    _Tracing.tracer = provider.get_tracer("onceward", version)


def _exporter() -> Any:
    """Return the OTLP exporter, or None if no endpoint is set."""
    if not (os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return None
    with extra("otel", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: Kind = "internal",
    parent: str | None = None,
    links: Iterable[str] = (),
) -> Generator[Recorded]:
    """Record the block as one span. An exception that leaves the block marks it as failed, without its message.

    `parent` is the trace text of a span in another process or at another time; `links` are those of other causes.
    """
    if _Tracing.tracer is None:
        yield UNRECORDED
        return
    started = _Tracing.tracer.start_as_current_span(
        name,
        context=None if parent is None else _context(parent),
        kind=_kind(kind),
        attributes=attributes,
        links=_links(links),
        record_exception=False,
        set_status_on_exception=False,
    )
    with started as current:
        recorded = Recorded(current)
        try:
            yield recorded
        except BaseException as error:
            recorded.fail(type(error).__name__)
            raise


def record_span(
    name: str,
    attributes: Attributes,
    *,
    kind: Kind,
    parent: str,
    started_ns: int,
    failed: str | None = None,
) -> None:
    """Record a span that began at `started_ns` (Unix time) and ends now, for code that runs outside a block."""
    if _Tracing.tracer is None:
        return
    started = _Tracing.tracer.start_span(
        name, context=_context(parent), kind=_kind(kind), start_time=started_ns, attributes=attributes
    )
    if failed is not None:
        Recorded(started).fail(failed)
    started.end()


def derived_parent(*names: str) -> str:
    """Return a `traceparent` that depends only on these names, so that spans of two processes share a trace.

    No span has the id of this parent: the spans that use it are the top of their trace.
    """
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-01"


def is_tracing() -> bool:
    return _Tracing.tracer is not None


def remote_parent(headers: Mapping[str, str]) -> str | None:
    """Return the trace of the caller from the headers of its request, or None if there is none or it is not valid."""
    parent = headers.get("traceparent", "").strip()
    if TRACEPARENT.fullmatch(parent[:55]) is None or (len(parent) > 55 and parent[55] != "-"):
        return None
    state = headers.get("tracestate", "").strip()
    return f"{parent[:55]} {state}" if TRACESTATE.fullmatch(state) else parent[:55]


def current_trace_id() -> str | None:
    """Return the trace id of the current span in hexadecimal digits, or None if there is none that is sampled."""
    if _Tracing.tracer is None:
        return None
    context = _trace().get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid and context.trace_flags.sampled else None


def current_trace() -> str | None:
    """Return the trace text of the current span, or None if tracing is off."""
    carrier = outgoing_headers()
    if "traceparent" not in carrier:
        return None
    return " ".join(filter(None, (carrier["traceparent"], carrier.get("tracestate"))))


def trace_id_of(trace: str | None) -> str | None:
    """Return the trace id of a trace text, or None if it is none or not sampled."""
    if trace is None or TRACEPARENT.match(trace) is None or not int(trace[53:55], 16) & 1:
        return None
    return trace[3:35]


def outgoing_headers() -> dict[str, str]:
    """Return the headers that continue the current span at a server that we call; none if tracing is off."""
    carrier: dict[str, str] = {}
    if _Tracing.tracer is not None:
        _propagator().inject(carrier)
    return carrier


def _context(trace: str) -> Any:
    parent, _, state = trace.partition(" ")
    return _propagator().extract({"traceparent": parent, **({"tracestate": state} if state else {})})


def _links(traces: Iterable[str]) -> list[Any]:
    found = (_trace().get_current_span(_context(each)).get_span_context() for each in traces)
    return [_trace().Link(context) for context in found if context.is_valid]


def _kind(kind: Kind) -> Any:
    return _trace().SpanKind[kind.upper()]


@cache
def _trace() -> Any:
    return import_module("opentelemetry.trace")


@cache
def _propagator() -> Any:
    return import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
