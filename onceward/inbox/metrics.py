"""What the inbox counts. Label values are ids of configured sources and closed sets, never text from outside."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from onceward.telemetry.metrics import SECONDS, Declared, collect, counter, histogram


class Spread:
    """Counts of one combination of labels. Only the event loop's thread writes, so it needs no lock."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


class LightHistogram(Collector):
    """A histogram for what happens ten thousand times a second: a quarter of the cost of the library's own."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...]) -> None:
        self.declared = Declared(name, "histogram", labels, help)
        self._spreads: dict[tuple[str, ...], Spread] = {}

    def labels(self, *values: str) -> Spread:
        return self._spreads.setdefault(values, Spread())

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self.declared.name, self.declared.help, labels=self.declared.labels)
        bounds = [*(str(bound) for bound in SECONDS), "+Inf"]
        for values, spread in list(self._spreads.items()):
            family.add_metric(values, list(zip(bounds, accumulate(spread.counts), strict=True)), spread.total)
        yield family


PROCESSED = counter(
    "webhook_processing_total",
    "Attempts to handle an event, by how they ended: success or error.",
    ("webhook_id", "provider", "result"),
)
DEAD = counter(
    "webhook_dead_letter_total",
    "Events that became dead letters, by reason.",
    ("webhook_id", "provider", "reason"),
)
REPLAYED = counter(
    "webhook_replay_total",
    "Events that an operator had handled again.",
    ("webhook_id", "operator"),
)
RECEIVED = counter(
    "webhook_received_total",
    "Events that arrived and were answered, by result: stored or duplicate.",
    ("webhook_id", "provider", "result"),
)
REJECTED = counter(
    "webhook_rejected_total",
    "Requests that were turned away, by reason; source is empty when it is unknown.",
    ("source", "provider", "reason"),
)
UNAVAILABLE = counter(
    "webhook_unavailable_total",
    "Requests answered 503 because nothing could be committed, by reason.",
    ("reason",),
)
RECEIVE_SECONDS = LightHistogram(
    "webhook_receive_seconds",
    "From the whole request to its answer, which follows the commit.",
    ("provider", "mode"),
)
collect(RECEIVE_SECONDS, [RECEIVE_SECONDS.declared])
PROCESSING_SECONDS = histogram(
    "webhook_processing_seconds",
    "From the start of a handler to its end.",
    ("provider",),
)
