"""The hot statements, one file each, and the small ones beside the code that uses them."""

from __future__ import annotations

from pathlib import Path


def read(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


START_MANY = read("start_many")
RECORD = read("record")
FINISH = read("finish")
