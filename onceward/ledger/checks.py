"""Recompute the ledger from its entries and report every difference. Read-only; each check is one pass over the entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onceward.db import Connection, Transaction
from onceward.statements import read_statement
from onceward.trust.invariants import Check

LIMIT = 100
"""The number of differences that each check reports."""

BALANCED = read_statement("ledger", "check_balanced")
ENTRIES = read_statement("ledger", "check_entries")
JOURNALS = read_statement("ledger", "check_journals")
CHECKPOINTS = read_statement("ledger", "check_checkpoints")
DRAWN = read_statement("ledger", "check_drawn")
PENDING = read_statement("ledger", "check_pending")
BOUNDS = read_statement("ledger", "check_bounds")
GUARDS = read_statement("ledger", "check_guards")


def _returns_no_rows(query: str) -> Callable[[Connection], Awaitable[list[str]]]:
    async def run(conn: Connection) -> list[str]:
        return [row[0] for row in await conn.fetch(query, LIMIT)]

    return run


CHECKS: tuple[Check, ...] = (
    Check("ledger.debits_equal_credits", _returns_no_rows(BALANCED)),
    Check("ledger.entries_stay_within_organization_and_currency", _returns_no_rows(ENTRIES)),
    Check("ledger.journals_have_all_their_entries", _returns_no_rows(JOURNALS)),
    Check("ledger.checkpoints_are_sums_of_entries", _returns_no_rows(CHECKPOINTS)),
    Check("ledger.reversals_stay_within_originals", _returns_no_rows(DRAWN)),
    Check("ledger.pending_has_not_ended", _returns_no_rows(PENDING)),
    Check("ledger.bounded_accounts_match_their_entries", _returns_no_rows(BOUNDS)),
    Check("ledger.nothing_can_be_changed", _returns_no_rows(GUARDS)),
)
"""The checks read all organizations, so they run as the engine."""


async def check(conn: Connection | Transaction) -> list[str]:
    """Run all checks. Return one line per difference, with the rule and the row; empty if the ledger is correct."""
    connection = conn.conn if isinstance(conn, Transaction) else conn
    return [f"{rule.name}: {finding}" for rule in CHECKS for finding in await rule.run(connection)]
