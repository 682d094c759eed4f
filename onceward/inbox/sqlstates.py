"""The SQLSTATEs that the SQL of `inbox` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

SQLSTATES = (
    SqlState(
        "OW005",
        "An external program cannot claim or finish the event: it is not waiting, or its source is not in "
        "mode external.",
    ),
)
