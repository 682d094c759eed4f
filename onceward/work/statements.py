"""SQL statements of work, one file each, read at import. The first line of each file states its promise."""

from __future__ import annotations

from pathlib import Path


def read(name: str) -> str:
    """Return the text of `sql/<name>.sql`."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


CLAIM = read("claim")
CLAIM_SUSPECT = read("claim_suspect")
CLAIM_LANES = "select * from onceward.claim_lanes($1, $2, $3, $4, $5, $6, $7)"
FINISH = read("finish")
RELEASE = read("release")
ENQUEUE_MANY = read("enqueue_many")
ENQUEUE_ALIKE = read("enqueue_alike")
ENQUEUE_ONE = read("enqueue_one")
