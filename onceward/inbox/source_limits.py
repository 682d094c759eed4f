"""Change how many requests of a source are accepted, and count those that were rejected."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onceward.db import Connection, Transaction
from onceward.inbox.environment import variable_of
from onceward.inbox.sources import Listed, find, notify_nodes, require_limits
from onceward.statements import read_statement
from onceward.trust import Identity, record
from onceward.webhooks.provider import ConfigError

REJECTED = read_statement("inbox", "count_rejected")
SET = """
update onceward.sources set requests_per_s = $2, requests_at_once = $3, changed_at = clock_timestamp()
 where webhook_id = $1
"""


@dataclass(frozen=True, slots=True)
class RejectedRequests:
    """How many requests of a source were rejected in the last 24 hours for one reason, as far as they are stored."""

    reason: str
    status: int
    requests: int
    last_at: datetime


async def rejected(conn: Connection | Transaction, name: str) -> list[RejectedRequests]:
    """Count the rejected requests of the source with this name in the last 24 hours, by reason."""
    return [RejectedRequests(**dict(row)) for row in await conn.fetch(REJECTED, name)]


async def limit(
    tx: Transaction,
    name: str,
    *,
    requests_per_s: float | None,
    requests_at_once: int | None,
    actor: str | Identity,
) -> Listed:
    """Set how many requests each process accepts. None: no limit. `tx` must run as the engine."""
    require_limits(requests_per_s, requests_at_once)
    source = await find(tx, name)
    if source.origin != "stored":
        variable = f"{variable_of(source.name)}_REQUESTS_PER_S"
        raise ConfigError(
            f"source {source.name!r} comes from the {source.origin}: set {variable} there", field="source"
        )
    await tx.execute(SET, source.webhook_id, requests_per_s, requests_at_once)
    await record(
        tx,
        "source.limited",
        entity_type="source",
        entity_id=source.webhook_id,
        changes={"requests_per_s": requests_per_s, "requests_at_once": requests_at_once},
        actor=actor,
        organization=source.organization_id,
    )
    await notify_nodes(tx)
    return await find(tx, str(source.webhook_id))
