"""Notify the owners of endpoints about warnings and disabled endpoints.

The caller passes the function that sends a notice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.statements import read_statement

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = "endpoint-notice"

UNSENT = read_statement("outbox", "list_unsent_notices")


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice for an owner. `kind` is `warning` or `disabled`; `owner` is a mail address and must not be logged."""

    id: int
    organization_id: UUID | None
    kind: str
    owner: str
    url: str
    details: dict[str, Any]

    @property
    def key(self) -> str:
        """The unique key of the message: retries send one mail."""
        return f"endpoint-notice:{self.id}"

    @property
    def data(self) -> dict[str, Any]:
        """The variables of the template."""
        return {
            "kind": self.kind,
            "url": self.url,
            "reason": self.details.get("reason", "failing"),
            "failures": self.details.get("failures", 0),
        }


Tell = Callable[[Notice], Awaitable[None]]


async def tell_owners(db: Database, tell: Tell) -> int:
    """Send the notices that have not been sent, and return their number.

    A notice without an owner is only marked as sent.
    """
    sent = 0
    for row in await db.fetch(UNSENT):
        if row["owner"] is not None:
            await tell(Notice(**dict(row)))
            sent += 1
        await db.execute("update onceward.endpoint_notices set told_at = onceward.now() where id = $1", row["id"])
    return sent
