"""The check of `onceward doctor` about connections: do those of all running processes fit into the server?"""

from __future__ import annotations

from onceward.connections import connection_budget
from onceward.db import Connection
from onceward.db.connection_share import FEWEST, RESERVE, Connections, read_connections
from onceward.db.processes import COUNTS_FOR_S
from onceward.doctor.finding import Finding
from onceward.feature import EVERY_ROLE
from onceward.settings import Settings

TIGHT = 5
"""A warning says that fewer connections than this are free."""


async def check_connections(conn: Connection, settings: Settings) -> Finding:
    """Check that all processes together fit into the server, and that operators find room beside them."""
    connections = await read_connections(conn, counts_for_s=COUNTS_FOR_S)
    if settings.pgbouncer:
        return Finding(
            "connections", "ok", f"PgBouncer shares them; {connections.open} of {connections.server} are in use"
        )
    text = _text(connections, settings)
    limit = connections.limit(settings.connections_max)
    if limit > connections.server:
        return Finding("connections", "fail", text, "lower ONCEWARD_CONNECTIONS_MAX or raise max_connections")
    least = sum(each.outside + FEWEST for each in connections.demands.values()) or _least_of_one(settings)
    if least > limit:
        return Finding("connections", "fail", text, "run fewer processes, raise max_connections, or use PgBouncer")
    if connections.server - connections.open < TIGHT:
        return Finding(
            "connections", "warn", text, "look who uses them (docs/scaling.md#connections), or raise max_connections"
        )
    return Finding("connections", "ok", text)


def _text(connections: Connections, settings: Settings) -> str:
    limit = connections.limit(settings.connections_max)
    why = f"{RESERVE} fewer than the server allows" if settings.connections_max is None else "ONCEWARD_CONNECTIONS_MAX"
    running = len(connections.demands)
    return (
        f"the processes of this installation ({running} now) share {limit} ({why}); {connections.open} of the server's "
        f"{connections.server} are in use"
    )


def _least_of_one(settings: Settings) -> int:
    return connection_budget(pool_max=FEWEST, roles=EVERY_ROLE, servers=settings.database_servers).total
