"""Put work into the queue: in the caller's transaction, in bulk, or by group commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from onceward.db import Connection, RawJson, Transaction
from onceward.work.job_task import BoundJob, ConfiguredJob, Options, same_organization
from onceward.work.statements import ENQUEUE_ALIKE, ENQUEUE_MANY, ENQUEUE_ONE
from onceward.work.wake import Waker

AT_ONCE = 2000

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Enqueued(Generic[R_co]):
    """The id of the enqueued job. `duplicate` is true if a job with the same unique key existed already."""

    id: int
    duplicate: bool = False


class Item(NamedTuple):
    """One job to insert."""

    task: str
    args: str
    queue: str
    options: Options
    organization: UUID | None
    caused_by: int | None


def item(
    job: ConfiguredJob[..., Any],
    arguments: dict[str, Any],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
) -> Item:
    """Check the arguments against the signature. Raises TypeError or ValueError that names the wrong argument."""
    [one] = items(job, [arguments], organization=organization, caused_by=caused_by)
    return one


def items(
    job: ConfiguredJob[..., Any],
    arguments: Sequence[dict[str, Any]],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
) -> list[Item]:
    """Return one item for each set of arguments of the same job."""
    task, options = job.job, job.options
    queue = options.queue or task.task.queue
    if options.organization is not None:
        organization = same_organization(job.name, options.organization, organization)
    dump = task.dump
    return [Item(task.name, dump(each), queue, options, organization, caused_by) for each in arguments]


def enqueue_sql(call: BoundJob[Any], /) -> tuple[str, list[Any]]:
    """Return an enqueue as SQL text and parameters ($1, $2, ...) for your own connection: psycopg, SQLAlchemy, Django.

    `enqueue_sql(pack.for_organization(o).call(order=1))`. Run the statement in the transaction that should cause the
    job. Workers find the job at their next poll.
    """
    one = item(call.job, call.arguments)
    return ENQUEUE_ONE, [str(each) if isinstance(each, RawJson) else each for each in _parameters(one, None)]


async def insert(conn: Connection, jobs: Sequence[Item], *, bundle: int | None = None) -> list[Enqueued[Any]]:
    """Insert the items in order, in the current transaction of the connection."""
    if bundle is None and all(_is_plain(options) for options in {each.options for each in jobs}):
        rows = await conn.fetch(ENQUEUE_MANY, *_columns(jobs))
        return [Enqueued(row[0]) for row in rows]
    enqueued: list[Enqueued[Any]] = []
    for each in jobs:
        row = await conn.fetchrow(ENQUEUE_ONE, *_parameters(each, bundle))
        assert row is not None
        enqueued.append(Enqueued(row["id"], row["duplicate"]))
    return enqueued


async def insert_alike(
    conn: Connection,
    job: ConfiguredJob[..., Any],
    arguments: Sequence[dict[str, Any]],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
) -> list[Enqueued[Any]]:
    """Insert one job for each set of arguments. The next chunk is checked while PostgreSQL writes the previous one."""
    enqueued: list[Enqueued[Any]] = []
    writing: asyncio.Task[list[Enqueued[Any]]] | None = None
    try:
        for start in range(0, len(arguments), AT_ONCE):
            chunk = items(job, arguments[start : start + AT_ONCE], organization=organization, caused_by=caused_by)
            if writing is not None:
                enqueued += await writing
            left = len(arguments) - start - len(chunk)
            writing = asyncio.create_task(_write(conn, chunk, left))
            await asyncio.sleep(0)  # lets the task send its statement
        return enqueued if writing is None else enqueued + await writing
    finally:
        if writing is not None and not writing.done():
            await asyncio.wait({writing})


async def _write(conn: Connection, alike: Sequence[Item], left: int) -> list[Enqueued[Any]]:
    first = alike[0]
    o = first.options
    if o.unique_key is not None or (o.run_at is not None and o.boost_s):
        return await insert(conn, alike)
    rows = await conn.fetch(
        ENQUEUE_ALIKE,
        [each.args for each in alike],
        first.organization,
        first.task,
        first.caused_by,
        first.queue,
        o.run_at,
        o.delay.total_seconds() if o.delay else 0.0,
        float(o.boost_s),
        left,
        list(o.tags) or None,
        o.max_attempts,
        o.lane,
        o.cap,
        o.ordered if o.lane is not None else None,
        o.parent,
        o.parent_cap,
    )
    return [Enqueued(row[0]) for row in rows]


async def enqueue(tx: Transaction, jobs: Sequence[Item], *, waker: Waker | None = None) -> list[Enqueued[Any]]:
    """Insert jobs in this transaction, and wake workers after its commit."""
    enqueued = await insert(tx.conn, jobs)
    if waker is not None:
        for queue in {each.queue for each in jobs}:
            tx.after_commit(lambda queue=queue: waker.wake(queue))
    return enqueued


async def bundle(tx: Transaction, members: Sequence[Item], then: Item, *, waker: Waker | None = None) -> Enqueued[Any]:
    """Enqueue the members, and run `then` when every member has ended, whatever its outcome."""
    number: int = await tx.fetchval("select nextval('onceward.ids')")
    [last] = await insert(tx.conn, [then])
    await tx.execute("update onceward.work set sort_at = 'infinity' where id = $1", last.id)
    inserted = [each for each in await insert(tx.conn, members, bundle=number) if not each.duplicate]
    if not inserted:
        await tx.execute("update onceward.work set sort_at = onceward.now() where id = $1", last.id)
    else:
        await tx.execute(
            "insert into onceward.bundles (id, organization_id, remaining, then_id) values ($1, $2, $3, $4)",
            number,
            tx.organization,
            len(inserted),
            last.id,
        )
    if waker is not None:
        for queue in {then.queue, *(each.queue for each in members)}:
            tx.after_commit(lambda queue=queue: waker.wake(queue))
    return last


def _is_plain(options: Options) -> bool:
    return (
        options.unique_key is None
        and options.lane is None
        and options.max_attempts is None
        and not options.tags
        and (options.run_at is None or options.boost_s == 0)
    )


def _columns(jobs: Sequence[Item]) -> tuple[list[Any], ...]:
    return (
        [each.task for each in jobs],
        [each.args for each in jobs],
        [each.queue for each in jobs],
        [each.options.run_at for each in jobs],
        [each.options.delay.total_seconds() if each.options.delay else 0.0 for each in jobs],
        [each.options.boost_s for each in jobs],
        [each.organization for each in jobs],
        [each.caused_by for each in jobs],
    )


def _parameters(each: Item, bundle: int | None) -> tuple[Any, ...]:
    o = each.options
    return (
        each.task,
        RawJson(each.args),
        each.queue,
        o.run_at,
        o.delay.total_seconds() if o.delay else 0.0,
        o.boost_s,
        o.unique_key,
        o.unique_for,
        o.on_conflict,
        o.lane,
        o.cap,
        o.ordered,
        o.parent,
        o.parent_cap,
        o.max_attempts,
        list(o.tags) or None,
        bundle,
        each.organization,
        each.caused_by,
    )
