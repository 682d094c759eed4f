"""Start workflows and send them signals, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from onceward.db import Connection, RawJson, Transaction, dump_json
from onceward.workflows.statements import START_MANY
from onceward.workflows.task import QUEUE, Start, WorkflowTask

START_ONE = """
select id, duplicate from onceward.start_workflow(
    $1, $2, $3, $4, $5, coalesce($6::timestamptz, onceward.now() + make_interval(secs => $7)), $8, $9, $10, $11)
"""


@dataclass(frozen=True, slots=True)
class Started:
    """The workflow that now exists. `duplicate`: it existed already, under the same key."""

    id: int
    duplicate: bool = False


class Wanted(NamedTuple):
    """One workflow, ready to be inserted."""

    name: str
    args: str
    version: str
    attributes: str | None
    run_at: datetime | None
    delay_s: float
    organization: UUID | None
    caused_by: int | None
    key: str | None = None
    parent: int | None = None
    position: int | None = None


def wanted(
    what: WorkflowTask | Start,
    arguments: dict[str, Any],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
    parent: int | None = None,
    position: int | None = None,
) -> Wanted:
    """Check the arguments against the signature; raises TypeError or ValueError naming the argument."""
    start = what if isinstance(what, Start) else Start(what)
    options = start.options
    return Wanted(
        start.name,
        start.task.dump(arguments),
        start.task.version,
        dump_json(dict(options.attributes)) if options.attributes else None,
        options.run_at,
        options.delay.total_seconds(),
        organization,
        caused_by,
        options.key,
        parent,
        position,
    )


async def insert(conn: Connection, all_wanted: Sequence[Wanted]) -> list[Started]:
    """Insert all of them, in order, as part of whatever transaction the connection is in."""
    if all(each.key is None and each.parent is None for each in all_wanted):
        columns = list(zip(*all_wanted, strict=True))[:8]
        return [Started(row[0]) for row in await conn.fetch(START_MANY, *columns)]
    done: list[Started] = []
    for each in all_wanted:
        row = await conn.fetchrow(
            START_ONE,
            each.name,
            RawJson(each.args),
            each.key,
            each.version,
            None if each.attributes is None else RawJson(each.attributes),
            each.run_at,
            each.delay_s,
            each.parent,
            each.position,
            each.organization,
            each.caused_by,
        )
        assert row is not None
        done.append(Started(row["id"], row["duplicate"]))
    return done


async def start(tx: Transaction, what: Wanted, *, wake: Callable[[str], None] | None = None) -> Started:
    """A workflow in this commit. Workers are woken after it."""
    [done] = await insert(tx.conn, [what])
    if wake is not None:
        tx.after_commit(lambda: wake(QUEUE))
    return done


async def signal(
    tx: Transaction, id: int, name: str, payload: Any = None, *, wake: Callable[[str], None] | None = None
) -> str:
    """`delivered` (it waited), `kept` (it will find it when it waits) or `gone` (it has ended)."""
    said: str = await tx.fetchval("select onceward.workflow_signal($1, $2, $3)", id, name, RawJson(dump_json(payload)))
    if wake is not None and said == "delivered":
        tx.after_commit(lambda: wake(QUEUE))
    return said


async def announce(tx: Transaction, name: str, payload: Any, *, wake: Callable[[str], None] | None = None) -> list[int]:
    """Answer every workflow of this organization that waits for an event like this; returns their ids."""
    told: list[int] = await tx.fetchval("select onceward.workflow_announce($1, $2)", name, RawJson(dump_json(payload)))
    if wake is not None and told:
        tx.after_commit(lambda: wake(QUEUE))
    return told
