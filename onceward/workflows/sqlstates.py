"""The SQLSTATEs that the SQL of `workflows` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

HISTORY_LACKS_STEP = "OW006"

SQLSTATES = (
    SqlState(
        HISTORY_LACKS_STEP,
        "The history of a workflow lacks a step that the run had recorded: a failover lost it. The workflow runs again "
        "from its history.",
    ),
)
