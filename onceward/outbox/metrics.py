"""The metrics of the outbox."""

from functools import cache

from prometheus_client import Counter

from onceward.telemetry.metrics import counter

ATTEMPTS = counter("onceward_delivery_attempts_total", "Attempts to deliver a webhook, by response class.", ["answer"])
DISABLED = counter("onceward_endpoints_disabled_total", "Endpoints disabled because too many deliveries failed.")


@cache
def _counter_for(answer: str) -> Counter:
    return ATTEMPTS.labels(answer)


def count_attempt(answer: str) -> None:
    """Count one attempt. `answer` is `2xx`, `5xx`, ... or `no_answer`: few values, so their counters are cached."""
    _counter_for(answer).inc()
