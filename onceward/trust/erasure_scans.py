"""Read the tables for a person in turns, and continue where a process was killed.

A row of `onceward.erasure_scans` knows the person while this lasts. Each turn is a transaction: it erases what it finds
and notes how far it is. The last one deletes the names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from onceward.db import Database, Transaction
from onceward.statements import named, read_statement
from onceward.telemetry import get_logger
from onceward.trust import audit
from onceward.trust.erase import Eraser, ErasureReport, Progress, Search, Tally, finish_erasures
from onceward.trust.identity import Identity
from onceward.trust.person import Person

log = get_logger("onceward.erasures")

RECORD = read_statement("trust", "record_erasure")
ADD = named(read_statement("trust", "add_erasure_scan"))
TAKE = read_statement("trust", "take_erasure_scan")
ABANDONED = read_statement("trust", "list_erasure_scans")
SAVE = read_statement("trust", "save_erasure_scan")
RETRY_S = 0.2
STEP_S = 20.0
"""How long a node continues the scans of others before it looks at its other duties."""


async def begin(db: Database, search: Search, *, actor: str | Identity, reason: str | None) -> int:
    """Erase what indexes lead to, and note that the tables are still to be read. Return the id of the scan."""
    async with db.transaction(role="engine") as tx:
        await search.follow_links(tx)
        await tx.execute(RECORD, search.person.forms, search.organization)
        await audit.record(
            tx,
            "person.erasing",
            entity_type="person",
            entity_id=search.person.hash,
            metadata={"rows": search.report().rows, "references": [each.hash for each in search.person.references]},
            actor=actor,
            organization=search.organization,
        )
        name, user_id = (actor.actor, actor.person) if isinstance(actor, Identity) else (actor, None)
        eraser, last, examined, found, also_known_as = _state(search)
        values = ADD.values(
            organization=search.organization,
            people=[each.text for each in search.person.references],
            actor=name,
            user_id=user_id,
            reason=reason,
            erasers=[each.name for each in search.erasers],
            eraser=eraser,
            last=last,
            examined=examined,
            found=found,
            also_known_as=also_known_as,
        )
        return await tx.fetchval(ADD.text, *values)


async def complete(
    db: Database, scan: int, erasers: Sequence[Eraser], progress: Progress | None = None
) -> ErasureReport:
    """Take turns until the scan has ended, and return what it found. Another process may take some of the turns."""
    while True:
        search, finished = await take_turn(db, scan, erasers)
        if finished:
            return search.report()
        if progress is not None:
            progress(search)


async def continue_abandoned(db: Database, erasers: Sequence[Eraser]) -> None:
    """Continue the scans that nobody has continued for 10 seconds, for a while."""
    until = time.monotonic() + STEP_S
    for row in await db.fetch(ABANDONED, [each.name for each in erasers]):
        log.info("erasure.continued", scan=row["id"], rows=row["examined"])
        finished = False
        while not finished and time.monotonic() < until:
            began = time.monotonic()
            _, finished = await take_turn(db, row["id"], erasers)
            await asyncio.sleep(time.monotonic() - began)  # half of the time belongs to others


async def take_turn(db: Database, scan: int, erasers: Sequence[Eraser]) -> tuple[Search, bool]:
    """Take one turn of the scan. Return what it has found so far, and whether it has ended."""
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow(TAKE, scan)
        if row is None:  # another process takes a turn
            await asyncio.sleep(RETRY_S)
            return Search(Person("another process"), None, ()), False
        search = _restored(row, erasers)
        if row["finished_at"] is not None:
            return search, True
        finished = not await search.turn(tx)
        await tx.execute(SAVE, scan, finished, *_state(search))
        if finished:
            await _record(tx, row, search)
    if finished:
        await finish_erasures(db)
    return search, finished


async def _record(tx: Transaction, row: Any, search: Search) -> None:
    """Record the end. Messages that somebody queued while the tables were read are not sent either."""
    await tx.execute(RECORD, search.person.forms, search.organization)
    await audit.record(
        tx,
        "person.erased",
        entity_type="person",
        entity_id=search.person.hash,
        metadata={
            "rows": search.report().rows,
            "references": [each.hash for each in search.person.references],
            "examined": search.examined,
        },
        actor=row["actor"],
        user_id=row["user_id"],
        reason=row["reason"],
        organization=search.organization,
    )


def _state(search: Search) -> tuple[str | None, list[str] | None, int, dict[str, Any], list[str]]:
    current = search.erasers[search.current].name if search.current < len(search.erasers) else None
    found = {name: asdict(tally) for name, tally in search.found.items()}
    return current, search.last, search.examined, found, sorted(search.names)


def _restored(row: Any, erasers: Sequence[Eraser]) -> Search:
    """Return the search as the last turn left it. If another version had other erasers, it reads all tables again."""
    names = [each.name for each in erasers]
    found = row["eraser"] in names
    return Search(
        Person(row["people"] or ["erased"]),
        row["organization_id"],
        tuple(erasers),
        found={name: Tally(**tally) for name, tally in row["found"].items()},
        names=set(row["also_known_as"] or ()),
        current=names.index(row["eraser"]) if found else 0,
        last=row["last"] if found else None,
        examined=row["examined"],
    )
