"""The SQLSTATEs that the SQL of `rehearsal` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

SQLSTATES = (SqlState("OW091", "A statement tried to commit a rehearsal. Everything it wrote is rolled back."),)
