"""Remove a person's data, keep the proof that nothing else was touched.

A person is named by a reference: an address, a phone number or a user id. Each package lists, as `ERASERS` in its
module `erasers`, how it finds and blanks what it holds about one; all of them run in one transaction, as the engine,
which also writes the audit entry: who asked, when, how many rows, and the reference as a hash only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import orjson

from onceward.db import Database, Transaction
from onceward.trust import audit
from onceward.trust.errors import TrustError
from onceward.trust.identity import Identity

SHORTEST_REFERENCE = 5
IDS_PER_ENTRY = 1000


class BadReference(TrustError):
    """Too short to mean one person."""


class DryRun(Exception):
    """Ends the transaction of a dry run without a commit."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whose data go. `json` is the reference as it stands inside JSON text."""

    ref: str

    @property
    def json(self) -> str:
        return orjson.dumps(self.ref).decode()[1:-1]

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.ref.strip().lower().encode()).hexdigest()


EraseFunction = Callable[[Transaction, Person], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Eraser:
    """`what` names the kind of data; `run` returns how many rows it changed."""

    what: str
    run: EraseFunction


async def erase(
    db: Database,
    person: str,
    erasers: Iterable[Eraser],
    *,
    actor: str | Identity,
    reason: str | None = None,
    dry_run: bool = False,
) -> dict[str, int]:
    """Rows changed by kind of data, in one transaction. A dry run does it all and rolls back."""
    if len(person.strip()) < SHORTEST_REFERENCE:
        raise BadReference(f"person {person!r} is shorter than {SHORTEST_REFERENCE} characters: it could be anybody")
    whom = Person(person.strip())
    counts: dict[str, int] = {}
    try:
        async with db.transaction(role="engine") as tx:
            for eraser in erasers:
                counts[eraser.what] = counts.get(eraser.what, 0) + await eraser.run(tx, whom)
            if dry_run:
                raise DryRun
            await audit.record(
                tx,
                "person.erased",
                entity_type="person",
                entity_id=whom.hash,
                metadata={"rows": counts},
                actor=actor,
                reason=reason,
            )
    except DryRun:
        return counts
    return counts


def contains(column: str, parameter: str) -> str:
    """SQL: whether a json or text column mentions the reference; compares text without case, never a pattern."""
    return f"position(lower({parameter}) in lower({column}::text)) > 0"
