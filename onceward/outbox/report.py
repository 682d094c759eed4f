"""What the deliverer reports about one attempt. The worker stores it; SQL reads it to update the delivery and its
endpoint.

`finish_deliveries.sql` reads the reports of successes, the SQL function `onceward.settled_delivery` those of failures.
A test compares the keys that they read with the fields of this class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

EndReason = Literal["endpoint_disabled", "tries_used_up"]
DisableReason = Literal["asked", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """The response to one attempt, and what follows from it. Each field is stored under its own name."""

    status: int | None = None
    """The HTTP status. None means that there was no response."""
    ms: int | None = None
    """How long the request took."""
    response: str | None = None
    """The start of the response body."""
    cause: str | None = None
    """The error class, if there was no response."""
    trips: bool = False
    """The failure counts towards the circuit breaker of the endpoint."""
    counted: bool = False
    """The quick retries are used up, so the delivery counts as failed in the statistics of the endpoint."""
    park_s: float | None = None
    """The endpoint asked us to wait for this long before the next delivery."""
    disable: DisableReason | None = None
    """Disable the endpoint for this reason."""
    skipped: Literal["filter"] | None = None
    """The endpoint does not want the event: nothing was sent."""
    reason: EndReason | None = None
    """Why the delivery ended without another attempt."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object. Fields that are None or False are left out."""
        values = {name: getattr(self, name) for name in NAMES}
        return {name: value for name, value in values.items() if value is not None and value is not False}


NAMES = tuple(each.name for each in fields(AttemptReport))
