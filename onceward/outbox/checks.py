"""The invariants of the outbox. Each check returns the problems that it finds."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check, resumable, rows_above, unfinished_rows
from onceward.work.checks import work_has_a_body

LOST = read_statement("outbox", "check_pending_without_work")
ENDED = read_statement("outbox", "check_ended_with_work")
BARE = read_statement("outbox", "check_endpoints_without_secret")
STRAY = read_statement("outbox", "check_foreign_deliveries")


async def check_ended_deliveries_have_no_work(conn: Connection) -> Sequence[str]:
    """The status of a delivery agrees with its row in `work`: a finished delivery has none."""
    return [
        f"delivery {row['id']} is {row['status']}, which contradicts its row in work" for row in await conn.fetch(ENDED)
    ]


async def check_active_endpoints_can_sign(conn: Connection) -> Sequence[str]:
    return [f"endpoint {row['endpoint_id']} is active but has no valid secret" for row in await conn.fetch(BARE)]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("delivery", "onceward.deliveries"),
    resumable(
        "outbox.nothing_pending_is_lost",
        unfinished_rows(
            LOST, lambda row: f"delivery {row['id']} is pending but has no row in work, so no worker will send it"
        ),
    ),
    Check("outbox.ended_deliveries_have_no_work", check_ended_deliveries_have_no_work),
    Check("outbox.active_endpoints_can_sign", check_active_endpoints_can_sign),
    resumable(
        "outbox.organizations_are_apart",
        rows_above(
            STRAY, lambda row: f"delivery {row['id']} belongs to another organization than its event or endpoint"
        ),
    ),
)
