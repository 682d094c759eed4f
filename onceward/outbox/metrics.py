"""What the outbox counts."""

from functools import cache

from prometheus_client import Counter

from onceward.telemetry.metrics import counter

ATTEMPTS = counter("onceward_delivery_attempts_total", "Attempts at delivering a webhook, by answer.", ["answer"])
DISABLED = counter("onceward_endpoints_disabled_total", "Endpoints disabled because they kept failing.")


@cache
def _answered(answer: str) -> Counter:
    return ATTEMPTS.labels(answer)


def count_attempt(answer: str) -> None:
    """`2xx`, `5xx`, ... or `no_answer`: a closed set, so each is looked up once."""
    _answered(answer).inc()
