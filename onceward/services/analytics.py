"""What analytics services have in common: the event, and a batch sent as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .call import Client, Judge, call
from .outcome import ServiceAnswer


@dataclass(frozen=True, slots=True)
class AnalyticsEvent:
    """One event. Its `key` identifies it at the service, so an event that is sent again counts once."""

    key: str
    name: str
    distinct_id: str = field(repr=False)
    at: datetime
    properties: Mapping[str, Any] = field(repr=False)


async def send_batch(
    client: Client,
    url: str,
    body: bytes,
    *,
    judge: Judge,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> ServiceAnswer:
    return await call(
        client,
        "POST",
        url,
        headers={"Content-Type": "application/json", **(headers or {})},
        body=body,
        judge=judge,
        timeout_s=timeout_s,
    )
