"""The Prometheus registry, and the functions with which a package declares its metrics.

Each package declares all its metrics in one `metrics.py`, which its `feature.py` names. docs/metrics.md lists them; a
test fails if one is missing there. Label values are closed sets or ids of configured objects, never texts from
requests. Names begin with `onceward_` or, in an app, with the name of the app, and use the base units of Prometheus.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client import (
    Histogram as PlainHistogram,
)
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from onceward.telemetry.caller import trace_id

__all__ = [
    "counter",
    "gauge",
    "histogram",
]

REGISTRY = CollectorRegistry(auto_describe=True)
disable_created_metrics()  # nobody reads this second series per counter

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Histogram buckets, from a fast claim to a stuck handler."""


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """A metric as the documentation lists it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


DECLARED: dict[str, DeclaredMetric] = {}
ALIASES: dict[str, str] = {}
"""Older names, which are shown as well, with the names that they stand for."""
PROCESS = tuple(
    DeclaredMetric(f"process_{name}", kind, (), help)
    for name, kind, help in (
        ("cpu_seconds_total", "counter", "Processor time that the process has used."),
        ("max_fds", "gauge", "Maximum number of open file descriptors."),
        ("open_fds", "gauge", "Number of open file descriptors."),
        ("resident_memory_bytes", "gauge", "Resident memory."),
        ("start_time_seconds", "gauge", "When the process started, as Unix time."),
        ("virtual_memory_bytes", "gauge", "Virtual memory."),
    )
)
"""The metrics that prometheus_client reads from the operating system, on Linux."""


class Histogram(PlainHistogram):
    """A histogram that keeps, for each bucket, the trace of the last value that was measured while one was recorded."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        super().observe(amount, exemplar or current_exemplar())


class Alias(Collector):
    """Shows a counter under another name too."""

    def __init__(self, name: str, metric: Counter) -> None:
        self._name = name
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        for family in self._metric.collect():
            shown = Metric(self._name.removesuffix("_total"), family.documentation, family.type)
            for sample in family.samples:
                shown.add_sample(self._name, sample.labels, sample.value)
            yield shown


def alias(name: str, metric: Counter) -> Counter:
    """Show a counter also under the name `name`, which others ask for. Return the counter."""
    [family] = metric.describe()
    ALIASES[name] = f"{family.name}_total"
    of = DECLARED[f"{family.name}_total"]
    collect(Alias(name, metric), [DeclaredMetric(name, "counter", of.labels, f"The same as `{of.name}`.")])
    return metric


def current_exemplar(trace: str | None = None) -> dict[str, str] | None:
    """Return the labels of an exemplar: the given trace id, or else that of the code that runs."""
    found = trace or trace_id()
    return None if found is None else {"trace_id": found}


def counter(name: str, help: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter. Its name must end in `_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"counter {name!r} must be named {name + '_total'!r}: Prometheus adds the suffix anyway")
    _declare(name, "counter", labels, help)
    return Counter(name, help, labels, registry=REGISTRY)


def gauge(name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge: a value that goes up and down."""
    _declare(name, "gauge", labels, help)
    return Gauge(name, help, labels, registry=REGISTRY)


def histogram(name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = SECONDS) -> Histogram:
    """Declare a histogram. Its name ends in the unit, for example `_seconds` or `_bytes`."""
    _declare(name, "histogram", labels, help)
    return Histogram(name, help, labels, buckets=tuple(buckets), registry=REGISTRY)


def collect(collector: Collector, declared: Iterable[DeclaredMetric]) -> None:
    """Register a collector, which computes its metrics when `/metrics` is requested."""
    for metric in declared:
        _declare(metric.name, metric.kind, metric.labels, metric.help)
    REGISTRY.register(collector)


def render(accept: str = "") -> tuple[bytes, str]:
    """Return the text for `/metrics` and its content type: OpenMetrics if the reader accepts it, as Prometheus does."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


def describe_process(version: str) -> None:
    """Show the version, and what the operating system knows about the process. Calling it again changes nothing."""
    if "onceward_build_info" in DECLARED:
        return
    python = ".".join(str(part) for part in sys.version_info[:3])
    gauge("onceward_build_info", "1, with the version of Onceward and of Python.", ["version", "python"]).labels(
        version, python
    ).set(1)
    collect(ProcessCollector(registry=None), PROCESS)


def declared() -> list[DeclaredMetric]:
    """Return the metrics of all imported modules, sorted by name, for the documentation."""
    return sorted(DECLARED.values(), key=lambda metric: metric.name)


def _declare(name: str, kind: str, labels: Sequence[str], help: str) -> None:
    DECLARED[name] = DeclaredMetric(name, kind, tuple(labels), help)
