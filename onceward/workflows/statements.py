"""The frequent statements, one `.sql` file each. Rare statements stand in the module that uses them."""

from __future__ import annotations

from pathlib import Path


def read(name: str) -> str:
    """Return the text of `sql/<name>.sql`."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


START_MANY = read("start_many")
RECORD = read("record")
FINISH = read("finish")
