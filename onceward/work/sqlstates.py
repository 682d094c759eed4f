"""The SQLSTATEs that the SQL of `work` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

LOST_LEASE = "OW001"

SQLSTATES = (
    SqlState(
        LOST_LEASE,
        "The lease of the work is lost. Another worker holds the work; nothing of this attempt is committed.",
    ),
)
