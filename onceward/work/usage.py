"""How much each organization uses of this process: seconds of handlers, and of database connections by requests and
live queries.

The numbers are kept until the metrics show them, for the organizations that used most. So there are few series, however
many organizations there are. They are also added to `onceward.usage`, by the hour, over all processes.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import nlargest
from operator import itemgetter
from uuid import UUID

from onceward.db import Database
from onceward.statements import read_statement
from onceward.telemetry.metrics import gauge

MOST_SHOWN = 10
MOST_STORED = 200
"""How many organizations one process adds to an hour at a time."""
ADD = read_statement("work", "add_usage")
USED_LATELY = read_statement("work", "usage")
MOST_KEPT = 10_000
"""Above this number of organizations, those that used least are forgotten."""
SLUGS = "select organization_id, slug from onceward.organizations where organization_id = any($1::uuid[])"
USED = gauge(
    "onceward_organization_used_seconds",
    "Seconds of handlers (`work`) and of database connections for requests and live queries (`connections`) that an "
    "organization used in this process in the last 15 seconds, for the 10 that used most. Empty: no organization.",
    ["of", "organization"],
)


class Handled:
    """What handlers did for one organization."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0


class Usage:
    """The seconds that each organization used since they were shown."""

    def __init__(self) -> None:
        self._handled: dict[UUID | None, Handled] = {}
        self.connections: dict[UUID | None, float] = {}

    @property
    def work(self) -> dict[UUID | None, float]:
        """The seconds of handlers."""
        return {organization: handled.seconds for organization, handled in self._handled.items()}

    def worked(self, organization: UUID | None, seconds: float) -> None:
        handled = self._handled.get(organization)
        if handled is None:
            if len(self._handled) >= MOST_KEPT:
                self._handled = {each: self._handled[each] for each, _ in _most(self.work, MOST_KEPT // 2)}
            handled = self._handled[organization] = Handled()
        handled.count += 1
        handled.seconds += seconds

    def held(self, customer: Hashable, seconds: float) -> None:
        """Count a connection. The customer of a request that is not authenticated yet is not an organization."""
        if customer is None or isinstance(customer, UUID):
            self.connections[customer] = self.connections.get(customer, 0.0) + seconds
            if len(self.connections) > MOST_KEPT:
                self.connections = dict(_most(self.connections, MOST_KEPT // 2))

    async def show(self, db: Database) -> None:
        """Set the gauges to what was used since the last call, and add it to the hour."""
        if db.turns.on_held is None:
            db.turns.on_held = self.held
        handled, work, connections = self._handled, self.work, self.connections
        self._handled, self.connections = {}, {}
        used = {"work": _most(work, MOST_SHOWN), "connections": _most(connections, MOST_SHOWN)}
        ids = {organization for most in used.values() for organization, _ in most if organization is not None}
        slugs = {row["organization_id"]: row["slug"] for row in await db.fetch(SLUGS, list(ids))} if ids else {}
        USED.clear()
        for of, most in used.items():
            for organization, seconds in most:
                name = "" if organization is None else slugs.get(organization, str(organization))
                USED.labels(of, name).set(seconds)
        total = {each: work.get(each, 0.0) + connections.get(each, 0.0) for each in work.keys() | connections.keys()}
        most = [organization for organization, _ in _most(total, MOST_STORED)]
        if most:
            counts = [handled[each].count if each in handled else 0 for each in most]
            seconds = ([values.get(each, 0.0) for each in most] for values in (work, connections))
            await db.execute(ADD, most, counts, *seconds)


def _most(seconds: dict[UUID | None, float], count: int) -> list[tuple[UUID | None, float]]:
    return nlargest(count, seconds.items(), key=itemgetter(1))


USAGE = Usage()
