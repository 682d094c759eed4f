"""Recount every pool from its claims and report every difference. Read-only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check

LIMIT = 100
"""The number of differences that each check reports."""

COUNTERS = read_statement("capacity", "check_counters")
OVERSOLD = read_statement("capacity", "check_oversold")
UNITS = read_statement("capacity", "check_units")
TOTALS = read_statement("capacity", "check_totals")
GUARDS = read_statement("capacity", "check_guards")


def _returns_no_rows(query: str) -> Callable[[Connection], Awaitable[list[str]]]:
    async def check(conn: Connection) -> list[str]:
        return [row[0] for row in await conn.fetch(query, LIMIT)]

    return check


CHECKS: tuple[Check, ...] = (
    Check("capacity.pools_count_their_claims", _returns_no_rows(COUNTERS)),
    Check("capacity.groups_sum_their_pools", _returns_no_rows(TOTALS)),
    Check("capacity.nothing_is_oversold", _returns_no_rows(OVERSOLD)),
    Check("capacity.a_unit_has_one_live_claim", _returns_no_rows(UNITS)),
    Check("capacity.counting_triggers_are_on", _returns_no_rows(GUARDS)),
)
"""The checks read all organizations, so they run as the engine."""
