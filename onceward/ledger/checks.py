"""Recompute the ledger from its entries and report every difference. Each check is one pass over the entries.

Journals, entries and checkpoints are append-only, so their checks continue where the last one ended.
"""

from __future__ import annotations

from typing import Any

from onceward.db import Connection, Transaction
from onceward.statements import read_statement
from onceward.trust.invariants import Check, Proven, Resumed, finds_nothing, resumable, rows_above

MOST_SUMS = 50_000
"""With more accounts, the sums are not remembered, and the next check reads all entries."""

BALANCED = read_statement("ledger", "check_balanced")
ENTRIES = read_statement("ledger", "check_entries")
JOURNALS = read_statement("ledger", "check_journals")
CHECKPOINTS = read_statement("ledger", "check_checkpoints")
PROVEN_SUMS = read_statement("ledger", "list_proven_sums")
DRAWN = read_statement("ledger", "check_drawn")
PENDING = read_statement("ledger", "check_pending")
BOUNDS = read_statement("ledger", "check_bounds")
PERIODS = read_statement("ledger", "check_periods")
GUARDS = read_statement("ledger", "check_guards")


def _text(row: Any) -> str:
    return row[0]


async def prove_checkpoints(conn: Connection, resumed: Resumed) -> Proven:
    """Add the entries since the last proof to the sums that it has proven, and compare with the checkpoints."""
    mark = resumed.mark
    rows = await conn.fetch(CHECKPOINTS, mark.get("through", 0), mark.get("sums", []))
    proven = await conn.fetchrow(PROVEN_SUMS, MOST_SUMS)
    return Proven([row[0] for row in rows], {} if proven is None else dict(proven))


CHECKS: tuple[Check, ...] = (
    resumable("ledger.debits_equal_credits", rows_above(BALANCED, _text)),
    resumable("ledger.entries_stay_within_organization_and_currency", rows_above(ENTRIES, _text)),
    resumable("ledger.journals_have_all_their_entries", rows_above(JOURNALS, _text)),
    resumable("ledger.checkpoints_are_sums_of_entries", prove_checkpoints),
    finds_nothing("ledger.reversals_stay_within_originals", DRAWN),
    finds_nothing("ledger.pending_has_not_ended", PENDING),
    finds_nothing("ledger.bounded_accounts_match_their_entries", BOUNDS),
    finds_nothing("ledger.closed_periods_stay_as_they_are", PERIODS),
    finds_nothing("ledger.nothing_can_be_changed", GUARDS),
)
"""The checks read all organizations, so they run as the engine."""


async def check(conn: Connection | Transaction) -> list[str]:
    """Run all checks. Return one line per difference, with the rule and the row; empty if the ledger is correct."""
    connection = conn.conn if isinstance(conn, Transaction) else conn
    return [f"{rule.name}: {finding}" for rule in CHECKS for finding in await rule.run(connection)]
