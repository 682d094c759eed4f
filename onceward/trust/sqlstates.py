"""The SQLSTATEs that the SQL of `trust` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

NEEDS_ORGANIZATION = "OW004"

SQLSTATES = (SqlState(NEEDS_ORGANIZATION, "The transaction has no organization. Capacity and the ledger need one."),)
