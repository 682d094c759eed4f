"""Invariants that `onceward verify` can check on a live database at any time.

A check is a coroutine that changes no data of its package and returns one line for each problem. A package names its
list of checks in its `feature.py`. A check over a table that only grows is resumable: it remembers how far the rows
were proven, and the next run continues there. Only a full run finds what was changed below that mark afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from onceward.db import FAILED, Connection, Database

CheckFunction = Callable[[Connection], Awaitable[Sequence[str]]]
Tell = Callable[[str], None]
"""Gets a text about the progress, for people who wait."""

Mark = dict[str, Any]
"""What a resumable check remembers: JSON. An empty one starts from the beginning."""

SETTLE_S = 2.0
MOST_PROBLEMS = 100
"""The number of problems that `finds_nothing` reports."""
OLDER_TRANSACTIONS = """
select exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                  and backend_type = 'client backend' and xact_start < $1)
"""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a resumable check continues. No row with an id up to `settled` can appear any more; None: not known."""

    mark: Mark
    settled: int | None
    tell: Tell


@dataclass(frozen=True, slots=True)
class Proven:
    """The result of a resumable check, and its mark if there were no problems."""

    problems: Sequence[str]
    mark: Mark


ResumableFunction = Callable[[Connection, Resumed], Awaitable[Proven]]


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant. `name` is `<package>.<invariant>`. `run` checks everything; `resume` continues from a mark."""

    name: str
    run: CheckFunction
    resume: ResumableFunction | None = None


def finds_nothing(name: str, statement: str, *, table: str | None = None) -> Check:
    """Return the check that `statement` finds no row. Its $1 is the number of rows at most; each row is a problem in
    words.

    A database without `table` does not use the app, and has no problems.
    """

    async def run(conn: Connection) -> Sequence[str]:
        if table is not None and await conn.fetchval("select to_regclass($1) is null", table):
            return []
        return [row[0] for row in await conn.fetch(statement, MOST_PROBLEMS)]

    return Check(name, run)


def resumable(name: str, resume: ResumableFunction) -> Check:
    """Return a check that continues where the last one ended, and can check everything."""

    async def run(conn: Connection) -> Sequence[str]:
        return (await resume(conn, Resumed({}, None, _silent))).problems

    return Check(name, run, resume)


def rows_above(statement: str, describe: Callable[[Any], str]) -> ResumableFunction:
    """Return the check that `statement` finds no row. Its $1 is the id above which rows were not checked yet.

    For rows that never change.
    """

    async def resume(conn: Connection, resumed: Resumed) -> Proven:
        problems = [describe(row) for row in await conn.fetch(statement, resumed.mark.get("through", 0))]
        return Proven(problems, resumed.mark if resumed.settled is None else {"through": resumed.settled})

    return resume


MOST_OPEN = 10_000


def unfinished_rows(statement: str, describe: Callable[[Any], str]) -> ResumableFunction:
    """Return the check that every unfinished row has work.

    `statement` returns the `id` of unfinished rows above $1 and of those in $2, and as `lost` whether it has no work:
    at most $3 rows, lost ones first. Rows that were unfinished in the last run are checked again.
    """

    async def resume(conn: Connection, resumed: Resumed) -> Proven:
        open_ids: list[int] = []
        problems: list[str] = []
        through, before = resumed.mark.get("through", 0), resumed.mark.get("open", [])
        for row in await conn.fetch(statement, through, before, MOST_OPEN + 100):
            if row["lost"]:
                problems.append(describe(row))
            else:
                open_ids.append(row["id"])
        if resumed.settled is None or len(open_ids) > MOST_OPEN:
            return Proven(problems[:100], resumed.mark)
        return Proven(problems[:100], {"through": resumed.settled, "open": open_ids})

    return resume


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. The invariant holds if there are no problems. `since` is the mark that it continued
    from."""

    name: str
    problems: tuple[str, ...]
    seconds: float
    since: Mark = field(default_factory=Mark)

    @property
    def ok(self) -> bool:
        return not self.problems


def _silent(_text: str) -> None:
    pass


async def verify(
    db: Database, checks: Iterable[Check], *, full: bool = False, timeout_s: float = 300.0, tell: Tell = _silent
) -> list[Result]:
    """Run the checks one after another, each in its own snapshot. A check that raises counts as a problem.

    Resumable checks continue from their marks unless `full`. After a problem the next run checks everything.
    """
    results: list[Result] = []
    async with db.acquire() as conn:
        # Before all snapshots: what is settled now is settled in each of them.
        settled = await settled_id(conn)
        for check in checks:
            tell(check.name)
            started = time.perf_counter()
            if check.resume is None:
                since, problems = Mark(), await _run(conn, check.run, timeout_s)
            else:
                since = Mark() if full else await read_mark(conn, check.name)
                problems = await _resume(conn, check.name, check.resume, Resumed(since, settled, tell), timeout_s)
            results.append(Result(check.name, tuple(problems), time.perf_counter() - started, since))
    return results


async def read_mark(conn: Connection, name: str) -> Mark:
    """Return the mark of a check, or an empty one."""
    return await conn.fetchval("select mark from onceward.proofs where name = $1", name) or Mark()


async def save_mark(conn: Connection, name: str, mark: Mark) -> None:
    """Store how far a check has proven its rows."""
    await conn.execute(
        "insert into onceward.proofs (name, mark) values ($1, $2)"
        " on conflict (name) do update set mark = excluded.mark, proven_at = clock_timestamp()",
        name,
        mark,
    )


async def forget_mark(conn: Connection, name: str) -> None:
    """Let the next run check everything: a problem is reported until it is repaired."""
    await conn.execute("delete from onceward.proofs where name = $1", name)


async def settled_id(conn: Connection) -> int | None:
    """Return an id up to which every row is committed or will never be, or None if old transactions are still open."""
    row = await conn.fetchrow(
        "select coalesce(pg_sequence_last_value('onceward.ids'), 0) as id, clock_timestamp() as at"
    )
    assert row is not None
    deadline = time.monotonic() + SETTLE_S
    while await conn.fetchval(OLDER_TRANSACTIONS, row["at"]):
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.05)
    return row["id"]


async def _resume(
    conn: Connection, name: str, resume: ResumableFunction, resumed: Resumed, timeout_s: float
) -> Sequence[str]:
    mark = resumed.mark

    async def run(conn: Connection) -> Sequence[str]:
        nonlocal mark
        proven = await resume(conn, resumed)
        mark = proven.mark
        return proven.problems

    problems = await _run(conn, run, timeout_s)
    if problems:
        await forget_mark(conn, name)
    elif mark != resumed.mark:
        await save_mark(conn, name, mark)
    return problems


async def _run(conn: Connection, run: CheckFunction, timeout_s: float) -> Sequence[str]:
    try:
        async with conn.transaction(isolation="repeatable_read", readonly=True):
            await conn.execute(f"set local statement_timeout = {int(timeout_s * 1000)}")
            return tuple(await run(conn))
    except FAILED as error:
        return (f"the check itself failed: {type(error).__name__}: {error}",)
