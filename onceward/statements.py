"""Read SQL statements from the files beside each package: `onceward/<package>/sql/<name>.sql`, one statement each.

The first line of each file is a comment that states what the statement promises. Modules read their statements when they
are imported, so a missing file is found at the start of a process.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent


def read_statement(package: str, name: str) -> str:
    """Return the text of `onceward/<package>/sql/<name>.sql`."""
    return (ROOT / package / "sql" / f"{name}.sql").read_text(encoding="utf-8")
