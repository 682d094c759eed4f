"""Put work into the queue: in the caller's transaction, in bulk, or by group commit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, islice
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, overload
from uuid import UUID

from asyncpg import Record

from onceward.background import spawn
from onceward.db import Connection, RawJson, Transaction
from onceward.telemetry.caller import caller_text
from onceward.work.job_task import BoundJob, ConfiguredJob, Options, same_organization
from onceward.work.statements import BUNDLE_THAT_WAITS, ENQUEUE, ENQUEUE_ELSEWHERE, ENQUEUE_UNIQUE
from onceward.work.wake import Waker

AT_ONCE = 2000
"""The most jobs in one statement."""
LEAST_AT_ONCE = 250
"""A call of at least twice as many jobs takes several statements, so that this process and PostgreSQL work at the
same time."""
PARTS = 4
PLACEHOLDER = re.compile(r"\$(\d+)(?:::[a-z0-9]+(?:\[\])?)?")

R_co = TypeVar("R_co", covariant=True)


class Enqueued(NamedTuple, Generic[R_co]):
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
    context: str | None = None
    """The context of the caller as JSON (`onceward.telemetry.caller`)."""


def item(
    job: ConfiguredJob[..., Any],
    arguments: dict[str, Any],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
) -> Item:
    """Check the arguments against the signature. Raises TypeError or ValueError that names the wrong argument."""
    try:
        task, options = job.job, job.options
    except AttributeError:
        raise TypeError(
            f"{job!r} is not a job: write enqueue(job, name=value, ...); a call of a job is for enqueue_many"
        ) from None
    if options.organization is not None:
        organization = same_organization(job.name, options.organization, organization)
    queue = options.queue or task.task.queue
    return Item(task.name, task.dump(arguments), queue, options, organization, caused_by, caller_text())


def items(
    calls: Iterable[BoundJob[Any]], *, organization: UUID | None = None, caused_by: int | None = None
) -> Iterator[Item]:
    """Yield one item for each call. The arguments are checked when the item is yielded."""
    context = caller_text()
    previous: ConfiguredJob[..., Any] | None = None
    for call in calls:
        job = call.job
        if job is not previous:  # most calls are of one job: what they share is read once
            previous, task, options = job, job.job, job.options
            owner = organization
            if options.organization is not None:
                owner = same_organization(job.name, options.organization, organization)
            name, dump, queue = task.name, task.dump, options.queue or task.task.queue
        yield Item(name, dump(call.arguments), queue, options, owner, caused_by, context)  # pyright: ignore[reportPossiblyUnboundVariable]


ParamStyle = Literal["numeric_dollar", "format", "named"]

PARAMETER_TYPES = {
    "task": "text",
    "args": "jsonb",
    "queue": "text",
    "run_at": "timestamptz",
    "delay_s": "float8",
    "boost_s": "int",
    "unique_key": "text",
    "unique_for": "text",
    "on_conflict": "text",
    "lane": "text",
    "cap": "int",
    "ordered": "boolean",
    "parent": "text",
    "parent_cap": "int",
    "max_attempts": "int",
    "tags": "text[]",
    "bundle": "bigint",
    "organization": "uuid",
    "caused_by": "bigint",
    "context": "jsonb",
    "fair_key": "text",
}
"""The types of the parameters of `enqueue_elsewhere.sql`."""


@overload
def enqueue_sql(
    call: BoundJob[Any], /, *, paramstyle: Literal["numeric_dollar", "format"] = ...
) -> tuple[str, list[Any]]: ...
@overload
def enqueue_sql(call: BoundJob[Any], /, *, paramstyle: Literal["named"]) -> tuple[str, dict[str, Any]]: ...
def enqueue_sql(
    call: BoundJob[Any], /, *, paramstyle: ParamStyle = "numeric_dollar"
) -> tuple[str, list[Any] | dict[str, Any]]:
    """Return an enqueue as SQL text and parameters, for your own connection and transaction.

    `enqueue_sql(pack.for_organization(o).call(order=1), paramstyle="format")`. Run the statement in the transaction
    that should cause the job. It wakes idle workers at its commit.

    | paramstyle | for |
    |---|---|
    | `numeric_dollar` | asyncpg (`await conn.fetchrow(text, *parameters)`), psycopg's raw cursors |
    | `format` | psycopg and the cursor of Django (`cursor.execute(text, parameters)`) |
    | `named` | SQLAlchemy (`session.execute(sqlalchemy.text(text), parameters)`) |
    """
    one = item(call.job, call.arguments)
    given = {
        name: str(value) if isinstance(value, RawJson) else value for name, value in _parameters(one, None).items()
    }
    match paramstyle:
        case "numeric_dollar":
            return ENQUEUE_ELSEWHERE.text, ENQUEUE_ELSEWHERE.values(**given)
        case "format":
            order = [int(number) - 1 for number in PLACEHOLDER.findall(ENQUEUE_ELSEWHERE.text)]
            return _with_placeholders(lambda _name: "%s"), [given[ENQUEUE_ELSEWHERE.names[index]] for index in order]
        case "named":
            return _with_placeholders(lambda name: f":{name}"), given
        case _:
            raise ValueError(f"paramstyle is {paramstyle!r}: use 'numeric_dollar', 'format' or 'named'")


def _with_placeholders(placeholder: Callable[[str], str]) -> str:
    """Return the statement with other placeholders.

    Each has a cast, because only asyncpg asks the server for the types.
    """
    text = "\n".join(line for line in ENQUEUE_ELSEWHERE.text.splitlines() if not line.startswith("--"))
    assert "%" not in text  # it would have to be doubled for psycopg

    def replaced(match: re.Match[str]) -> str:
        name = ENQUEUE_ELSEWHERE.names[int(match[1]) - 1]
        return f"cast({placeholder(name)} as {PARAMETER_TYPES[name]})"

    return PLACEHOLDER.sub(replaced, text)


async def insert(
    conn: Connection, jobs: Iterable[Item], *, count: int | None = None, bundle: int | None = None
) -> list[Enqueued[Any]]:
    """Insert the items in order, in the current transaction of the connection. Every enqueue ends here.

    An iterator needs its `count`. It yields the next chunk while PostgreSQL writes the previous one, so the check of
    the arguments costs no extra time. A sequence of up to `AT_ONCE` items without unique keys takes one statement: a
    group commit has no other transaction.
    """
    left = count if count is not None else len(cast("Sequence[Item]", jobs))
    at_once = AT_ONCE if count is None else min(AT_ONCE, max(LEAST_AT_ONCE, -(-left // PARTS)))
    waiting = iter(jobs)
    enqueued: list[Enqueued[Any]] = []
    writing: asyncio.Task[list[Enqueued[Any]]] | None = None
    try:
        while chunk := list(islice(waiting, at_once)):
            if writing is not None:
                enqueued += await writing
            left -= len(chunk)
            if writing is None and left <= 0:
                return await _write(conn, chunk, 0, bundle)
            writing = spawn(_write(conn, chunk, left, bundle))
            await asyncio.sleep(0)  # lets the task send its statement
        return enqueued if writing is None else enqueued + await writing
    finally:
        if writing is not None and not writing.done():
            await asyncio.wait({writing})


async def _write(conn: Connection, chunk: Sequence[Item], left: int, bundle: int | None) -> list[Enqueued[Any]]:
    """Write consecutive items without a unique key in one statement, and each item with a unique key alone."""
    enqueued: list[Enqueued[Any]] = []
    left += len(chunk)
    for unique, group in groupby(chunk, key=_is_unique):
        alike = list(group)
        left -= len(alike)
        if not unique:
            row = await conn.fetchrow(ENQUEUE, *_columns(alike, left, bundle))
            assert row is not None
            enqueued += map(Enqueued, row["ids"] or range(row["first"], row["last"] + 1))
            continue
        for each in alike:
            row = await conn.fetchrow(ENQUEUE_UNIQUE.text, *ENQUEUE_UNIQUE.values(**_parameters(each, bundle)))
            assert row is not None
            enqueued.append(Enqueued(row["id"], row["duplicate"]))
    return enqueued


async def bundle(tx: Transaction, members: Sequence[Item], then: Item, *, waker: Waker) -> Enqueued[Any]:
    """Enqueue the members, and run `then` when every member has ended, whatever its outcome.

    If a job has the unique key of `then` already, that job stays as it is and is returned as a duplicate: it waits for
    these members only if it waits for the members of another bundle anyway.
    """
    waiting = await _bundle_that_waits(tx, then)
    then = then._replace(options=replace(then.options, on_conflict="skip"))
    [last] = await insert(tx.conn, [then])
    if not last.duplicate:
        number: int | None = await tx.fetchval("select nextval('onceward.ids')")
        await tx.execute("update onceward.work set sort_at = 'infinity' where id = $1", last.id)
    else:
        number = waiting["id"] if waiting is not None and waiting["then_id"] == last.id else None
    inserted = [each for each in await insert(tx.conn, members, bundle=number) if not each.duplicate]
    if last.duplicate:
        await tx.execute("update onceward.bundles set remaining = remaining + $2 where id = $1", number, len(inserted))
    elif not inserted:
        await tx.execute("update onceward.work set sort_at = onceward.now() where id = $1", last.id)
    else:
        await tx.execute(
            "insert into onceward.bundles (id, organization_id, remaining, then_id) values ($1, $2, $3, $4)",
            number,
            tx.organization,
            len(inserted),
            last.id,
        )
    for queue in {then.queue, *(each.queue for each in members)}:
        tx.after_commit(lambda queue=queue: waker.wake(queue))
    return last


async def _bundle_that_waits(tx: Transaction, then: Item) -> Record | None:
    """Lock the bundle whose members the job with the unique key of `then` waits for, before that job is locked.

    The last member that ends locks them in the same order.
    """
    if then.options.unique_key is None:
        return None
    return await tx.fetchrow(BUNDLE_THAT_WAITS, then.organization, f"{then.task}:{then.options.unique_key}")


def _is_unique(item: Item) -> bool:
    """Return whether the item may be a duplicate. Only such an item needs a statement of its own."""
    return item.options.unique_key is not None


Settings = tuple[str, str, UUID | None, int | None, Options, str | None]
"""What many items share: task, queue, organization, cause, options and context. The bulk statement sends it once."""


class EnqueueColumns(NamedTuple):
    """The parameters of `enqueue.sql` by their number, which is faster than by name.

    A test compares them with the statement.
    """

    args: list[str]
    numbers: list[int]
    left: int
    bundle: int | None
    task: list[str]
    queue: list[str]
    organization: list[UUID | None]
    caused_by: list[int | None]
    run_at: list[datetime | None]
    delay_s: list[float]
    boost_s: list[float]
    tags: list[str | None]
    max_attempts: list[int | None]
    lane: list[str | None]
    cap: list[int | None]
    ordered: list[bool | None]
    parent: list[str | None]
    parent_cap: list[int | None]
    context: list[RawJson | None]
    fair_key: list[str | None]


def _columns(jobs: Sequence[Item], left: int, bundle: int | None) -> EnqueueColumns:
    """Return the parameters of `enqueue.sql`.

    Items with the same settings refer to them by number; alike ones need none.
    """
    known: dict[Settings, int] = {}
    numbers: list[int] = []
    previous: Item | None = None
    number = 0
    for each in jobs:
        # Items of one call share these objects, and comparing them is faster than hashing all options.
        if (
            previous is None
            or each.options is not previous.options
            or each.task is not previous.task
            or each.queue is not previous.queue
            or each.organization is not previous.organization
            or each.caused_by != previous.caused_by
            or each.context != previous.context
        ):
            settings = (each.task, each.queue, each.organization, each.caused_by, each.options, each.context)
            number = known.setdefault(settings, len(known) + 1)
            previous = each
        numbers.append(number)
    options = [settings[4] for settings in known]
    return EnqueueColumns(
        [each.args for each in jobs],
        numbers if len(known) > 1 else [],
        left,
        bundle,
        [settings[0] for settings in known],
        [settings[1] for settings in known],
        [settings[2] for settings in known],
        [settings[3] for settings in known],
        [o.run_at for o in options],
        [o.delay.total_seconds() if o.delay else 0.0 for o in options],
        [float(o.boost_s) for o in options],
        [_text_array(o.tags) for o in options],
        [o.max_attempts for o in options],
        [o.lane for o in options],
        [o.cap for o in options],
        [o.ordered if o.lane is not None else None for o in options],
        [o.parent for o in options],
        [o.parent_cap for o in options],
        [None if settings[5] is None else RawJson(settings[5]) for settings in known],
        [o.fair_key for o in options],
    )


def _text_array(texts: Sequence[str]) -> str | None:
    """Return the texts as the literal of a PostgreSQL array, or None if there are none."""
    if not texts:
        return None
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def _parameters(each: Item, bundle: int | None) -> dict[str, Any]:
    o = each.options
    return {
        "task": each.task,
        "args": RawJson(each.args),
        "queue": each.queue,
        "run_at": o.run_at,
        "delay_s": o.delay.total_seconds() if o.delay else 0.0,
        "boost_s": o.boost_s,
        "unique_key": o.unique_key,
        "unique_for": o.unique_for,
        "on_conflict": o.on_conflict,
        "lane": o.lane,
        "cap": o.cap,
        "ordered": o.ordered,
        "parent": o.parent,
        "parent_cap": o.parent_cap,
        "max_attempts": o.max_attempts,
        "tags": list(o.tags) or None,
        "bundle": bundle,
        "organization": each.organization,
        "caused_by": each.caused_by,
        "context": None if each.context is None else RawJson(each.context),
        "fair_key": o.fair_key,
    }
