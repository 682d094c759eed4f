"""Tell the owners of endpoints what was decided about them. Notices are rows; whoever sends mail is passed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward.db import Database

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = "endpoint-notice"

UNTOLD = """
select n.id, n.organization_id, n.kind, n.owner, e.url, n.details
  from onceward.endpoint_notices n join onceward.endpoints e using (endpoint_id)
 where n.told_at is null order by n.id limit 100
"""


@dataclass(frozen=True, slots=True)
class Notice:
    """`kind` is `warning` or `disabled`; `owner` an address, never logged."""

    id: int
    organization_id: UUID | None
    kind: str
    owner: str
    url: str
    details: dict[str, Any]

    @property
    def key(self) -> str:
        """Makes the message happen once, however often it is asked for."""
        return f"endpoint-notice:{self.id}"

    @property
    def data(self) -> dict[str, Any]:
        """What the template needs."""
        return {
            "kind": self.kind,
            "url": self.url,
            "reason": self.details.get("reason", "failing"),
            "failures": self.details.get("failures", 0),
        }


Tell = Callable[[Notice], Awaitable[None]]


async def tell_owners(db: Database, tell: Tell) -> int:
    """Pass on what has not been told yet; a notice without an owner is only kept."""
    told = 0
    for row in await db.fetch(UNTOLD):
        if row["owner"] is not None:
            await tell(Notice(**dict(row)))
            told += 1
        await db.execute("update onceward.endpoint_notices set told_at = onceward.now() where id = $1", row["id"])
    return told
