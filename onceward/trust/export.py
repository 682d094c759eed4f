"""Export everything that one organization stores about a person, as one JSON document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.erase import Eraser
from onceward.trust.identity import Identity
from onceward.trust.person import Person
from onceward.trust.person_rows import Found, find_walk, is_searched, linked_rows, window

BYTES = read_statement("trust", "list_binary_columns")


async def export(
    db: Database,
    person: str | Sequence[str],
    erasers: Iterable[Eraser],
    *,
    organization: UUID | None,
    actor: str | Identity,
    progress: Callable[[Eraser, int], None] | None = None,
) -> dict[str, Any]:
    """Return every row that the erasers find, by eraser. The audit log records the export.

    `progress` is called with the table that is being read, and how many rows were read so far. Bodies of requests are
    exported as text; other bytes (hashes, encrypted secrets) are left out.
    """
    whom = Person(person)
    data: dict[str, list[dict[str, Any]]] = {}
    names: set[str] = set()
    examined = 0
    async with db.transaction(role="engine") as tx:
        for eraser in erasers:
            binary = await _binary(tx, eraser)
            async for rows, read in _rows_of(tx, eraser, whom, organization):
                examined += read
                if progress is not None:
                    progress(eraser, examined)
                for found in rows:
                    row = _readable(eraser, found.values, binary)
                    data.setdefault(eraser.name, []).append(
                        {"table": eraser.table, "found_in": list(found.columns), "row": row}
                    )
                    names.update(name for name in found.names if not whom.is_named(name))
        exported_at = await tx.fetchval("select onceward.now()")
        await audit.record(
            tx,
            "person.exported",
            entity_type="person",
            entity_id=whom.hash,
            metadata={"rows": {name: len(rows) for name, rows in data.items()}},
            actor=actor,
            organization=organization,
        )
    return {
        "person": [each.text for each in whom.references],
        "organization_id": organization,
        "exported_at": exported_at,
        "also_known_as": sorted(names),
        "data": data,
    }


async def _rows_of(
    tx: Transaction, eraser: Eraser, person: Person, organization: UUID | None
) -> AsyncIterator[tuple[list[Found], int]]:
    """Yield the rows about the person window by window, each with the number of rows that were read for it."""
    walk = await find_walk(tx, eraser, organization) if is_searched(eraser, organization) else None
    if walk is None:
        return
    if eraser.complete:
        yield await linked_rows(tx, eraser, person, organization, values=True), 0
        return
    last: list[str] | None = None
    while True:
        read = await window(tx, eraser, person, organization, walk, last, values=True)
        yield read.found, read.examined
        last = read.last
        if last is None:
            return


async def _binary(tx: Transaction, eraser: Eraser) -> list[str]:
    return [row["attname"] for row in await tx.fetch(BYTES, eraser.table)]


def _readable(eraser: Eraser, row: Mapping[str, Any], binary: Sequence[str]) -> dict[str, Any]:
    """Return the row with bodies as text and without other bytes, which are `\\x` and hexadecimal in the JSON."""
    shown = {name: value for name, value in row.items() if name not in binary}
    for name in binary:
        if eraser.columns.get(name) == "body":
            value = row[name]
            shown[name] = None if value is None else bytes.fromhex(value[2:]).decode("utf-8", "replace")
    return shown
