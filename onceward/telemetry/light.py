"""Counters and histograms for events that occur ten thousand times a second.

The metrics of prometheus_client lock, check and look up labels at every count, which is a sixth of the cost of a small
job. These metrics need no lock, because only the event loop's thread counts. Callers keep the object that `labels`
returns.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector

from onceward.telemetry.metrics import SECONDS, DeclaredMetric, collect, current_exemplar
from onceward.telemetry.tracing import is_tracing


class Tally:
    """The count of one combination of labels."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total: float = 0


class Spread:
    """The distribution of one combination of labels, in seconds."""

    __slots__ = ("counts", "exemplars", "total")

    def __init__(self) -> None:
        self.exemplars: dict[int, Exemplar] = {}
        """The last traced value of each bucket."""
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float, trace: str | None = None) -> None:
        """Count a duration. `trace` is the id of its trace, where that is not the trace of the code that runs."""
        bucket = bisect_left(SECONDS, seconds)
        self.counts[bucket] += 1
        self.total += seconds
        if is_tracing() and (labels := current_exemplar(trace)) is not None:
            self.exemplars[bucket] = Exemplar(labels, seconds, time.time())


class LightCounter(Collector):
    """A counter without locks. Its name ends in `_total`."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self.declared = DeclaredMetric(name, "counter", tuple(labels), help)
        self._tallies: dict[tuple[str, ...], Tally] = {}
        collect(self, [self.declared])

    def labels(self, *values: str) -> Tally:
        return self._tallies.setdefault(values, Tally())

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(self.declared.name, self.declared.help, labels=self.declared.labels)
        for values, tally in list(self._tallies.items()):
            family.add_metric(values, tally.total)
        yield family


class LightHistogram(Collector):
    """A histogram of durations without locks."""

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self.declared = DeclaredMetric(name, "histogram", tuple(labels), help)
        self._spreads: dict[tuple[str, ...], Spread] = {}
        collect(self, [self.declared])

    def labels(self, *values: str) -> Spread:
        return self._spreads.setdefault(values, Spread())

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self.declared.name, self.declared.help, labels=self.declared.labels)
        bounds = [*(str(bound) for bound in SECONDS), "+Inf"]
        for values, spread in list(self._spreads.items()):
            counts = enumerate(zip(bounds, accumulate(spread.counts), strict=True))
            buckets = [(bound, count, spread.exemplars.get(n)) for n, (bound, count) in counts]
            family.add_metric(values, buckets, spread.total)  # pyright: ignore[reportArgumentType]
        yield family
