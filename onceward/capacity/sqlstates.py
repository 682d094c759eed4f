"""The SQLSTATEs that the SQL of `capacity` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

SQLSTATES = (
    SqlState("OW002", "A statement tried to delete a claim on capacity. Claims are released, never deleted."),
    SqlState("OW003", "A hold on capacity would end before it begins."),
)
