"""Read the SQL statements of a package: one file each in its folder `sql`. The first line states what the statement promises."""

from __future__ import annotations

from pathlib import Path


def load_sql(module_file: str, name: str) -> str:
    """Return the text of `sql/<name>.sql` beside the module whose `__file__` is given."""
    return (Path(module_file).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
