"""OpenTelemetry spans, if its packages are installed and tracing is switched on.

Exporters and sampling follow the standard `OTEL_*` variables.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from onceward.errors import OncewardError
from onceward.extras import extra


class ExporterMissing(OncewardError):
    """An OTLP endpoint is set, but the package of its exporter is not installed."""


class _Tracing:
    """The tracer, or None while tracing is off. It is process-wide, like the provider of OpenTelemetry."""

    tracer: Any = None


def configure_tracing(*, service: str, environment: str, version: str) -> None:
    """Switch tracing on for the process."""
    with extra("otel", "ONCEWARD_TRACING=true"):
        trace = import_module("opentelemetry.trace")
        sdk = import_module("opentelemetry.sdk.trace")
        export = import_module("opentelemetry.sdk.trace.export")
        resources = import_module("opentelemetry.sdk.resources")
    identity = {"service.name": service, "deployment.environment": environment, "service.version": version}
    provider = sdk.TracerProvider(resource=resources.Resource.create(identity))
    if exporter := _exporter():
        provider.add_span_processor(export.BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    _Tracing.tracer = provider.get_tracer("onceward", version)


def _exporter() -> Any:
    """Return the OTLP exporter, which is a separate package, or None if no endpoint is set."""
    if not (os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return None
    try:
        return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    except ImportError as error:
        raise ExporterMissing(
            "an OTLP endpoint is set but its exporter is not installed: pip install opentelemetry-exporter-otlp-proto-http"
        ) from error


@contextmanager
def span(name: str, *, parent: str | None = None, **attributes: str | int | float | bool) -> Generator[None]:
    """Record the block as one span with these attributes, including an exception that it raises.

    `parent` is the `traceparent` (W3C) of a span in another process or at another time.
    """
    if _Tracing.tracer is None:
        yield
        return
    context = None if parent is None else _propagator().extract({"traceparent": parent})
    with _Tracing.tracer.start_as_current_span(name, context=context, attributes=attributes):
        yield


def record_span(name: str, *, parent: str, started_ns: int, **attributes: str | int | float | bool) -> None:
    """Record a span that began at `started_ns` (Unix time) and ends now, for code that runs outside a block."""
    if _Tracing.tracer is None:
        return
    context = _propagator().extract({"traceparent": parent})
    _Tracing.tracer.start_span(name, context=context, start_time=started_ns, attributes=attributes).end()


def derived_parent(*names: str) -> str:
    """Return a `traceparent` that depends only on these names, so that spans of two processes share a trace.

    No span has the id of this parent: the spans that use it are the top of their trace.
    """
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-01"


def is_tracing() -> bool:
    return _Tracing.tracer is not None


def traceparent() -> str | None:
    """Return the current span as a `traceparent` (W3C), or None if tracing is off."""
    if _Tracing.tracer is None:
        return None
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return carrier.get("traceparent")


def _propagator() -> Any:
    return import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
