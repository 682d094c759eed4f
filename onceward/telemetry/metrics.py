"""One Prometheus registry, and how a package declares what it counts.

Each package has one `metrics.py`, named in its `feature.py`, in which all of its metrics stand, made with the functions
below and used by name from its other files. docs/metrics.md lists them; a test fails when one is missing there. Label values
are closed sets or ids of configured things, never texts from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry(auto_describe=True)
disable_created_metrics()  # a second series per counter that nobody reads

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets that tell a fast claim from a slow one and still hold a stuck handler."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric as it stands in the documentation."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


DECLARED: dict[str, Declared] = {}


def counter(name: str, help: str, labels: Sequence[str] = ()) -> Counter:
    """Something that only grows; the name ends in `_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"counter {name!r} must be called {name + '_total'!r}: Prometheus adds the ending anyway")
    _declare(name, "counter", labels, help)
    return Counter(name, help, labels, registry=REGISTRY)


def gauge(name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
    """Something that is so much right now."""
    _declare(name, "gauge", labels, help)
    return Gauge(name, help, labels, registry=REGISTRY)


def histogram(name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = SECONDS) -> Histogram:
    """How a measure is spread; the name ends in its unit, as `_seconds` or `_bytes`."""
    _declare(name, "histogram", labels, help)
    return Histogram(name, help, labels, buckets=tuple(buckets), registry=REGISTRY)


def collect(collector: Collector, declared: Iterable[Declared]) -> None:
    """Metrics that are computed when asked for (queue depth from the database's last known counts)."""
    for metric in declared:
        _declare(metric.name, metric.kind, metric.labels, metric.help)
    REGISTRY.register(collector)


def render() -> tuple[bytes, str]:
    """The exposition text and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


def declared() -> list[Declared]:
    """The metrics of all modules that have been imported, for the documentation."""
    return sorted(DECLARED.values(), key=lambda metric: metric.name)


def _declare(name: str, kind: str, labels: Sequence[str], help: str) -> None:
    DECLARED[name] = Declared(name, kind, tuple(labels), help)
