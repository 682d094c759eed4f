"""The SQLSTATEs that the SQL of `trust` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

NEEDS_ORGANIZATION = "OW004"
TRANSACTION_ENDED = "OW007"
ROLE_CHANGED = "OW008"

SQLSTATES = (
    SqlState(NEEDS_ORGANIZATION, "The transaction has no organization. Capacity and the ledger need one."),
    SqlState(
        TRANSACTION_ENDED,
        "A handler ended its own transaction. Its success is not recorded; the work becomes a dead letter.",
    ),
    SqlState(
        ROLE_CHANGED,
        "A handler changed the role of its transaction. Nothing is committed; the work becomes a dead letter.",
    ),
)
