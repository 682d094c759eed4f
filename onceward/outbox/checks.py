"""The invariants of the outbox. Each check returns the problems that it finds."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check
from onceward.work.checks import work_has_a_body

LOST = read_statement("outbox", "check_pending_without_work")
ENDED = read_statement("outbox", "check_ended_with_work")
BARE = read_statement("outbox", "check_endpoints_without_secret")
STRAY = read_statement("outbox", "check_foreign_deliveries")


async def check_nothing_pending_is_lost(conn: Connection) -> Sequence[str]:
    """Every pending delivery has a row in `work`."""
    return [
        f"delivery {row['id']} is pending but has no row in work, so no worker will send it"
        for row in await conn.fetch(LOST)
    ]


async def check_ended_deliveries_have_no_work(conn: Connection) -> Sequence[str]:
    """The status of a delivery agrees with its row in `work`: a finished delivery has none."""
    return [
        f"delivery {row['id']} is {row['status']}, which contradicts its row in work" for row in await conn.fetch(ENDED)
    ]


async def check_active_endpoints_can_sign(conn: Connection) -> Sequence[str]:
    return [f"endpoint {row['endpoint_id']} is active but has no valid secret" for row in await conn.fetch(BARE)]


async def check_organizations_are_apart(conn: Connection) -> Sequence[str]:
    """Events are delivered only to endpoints of their own organization."""
    return [
        f"delivery {row['id']} belongs to another organization than its event or endpoint"
        for row in await conn.fetch(STRAY)
    ]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("delivery", "onceward.deliveries"),
    Check("outbox.nothing_pending_is_lost", check_nothing_pending_is_lost),
    Check("outbox.ended_deliveries_have_no_work", check_ended_deliveries_have_no_work),
    Check("outbox.active_endpoints_can_sign", check_active_endpoints_can_sign),
    Check("outbox.organizations_are_apart", check_organizations_are_apart),
)
