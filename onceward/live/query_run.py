"""Run a query once, in a read-only transaction with one snapshot, with the permissions of the viewer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from pydantic import BaseModel

from onceward.background import TimeLimit, spawn
from onceward.db import BROKEN, Connection, Database, Unavailable
from onceward.db.lost import is_gone
from onceward.live.access import Viewer
from onceward.live.errors import NotWatched, QueryFault
from onceward.live.query import Dependency, Query, QueryDefinition
from onceward.live.relations import planned, scans
from onceward.live.watched import Tables
from onceward.work.leaks import failure_of

ROLLBACK_S = 5.0
REMAINING = "select extract(epoch from $1::timestamptz - onceward.now())::float8"


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """A result as JSON text, its dependencies, and the seconds after which it must be computed again in any case."""

    text: str
    hash: str
    dependencies: frozenset[Dependency]
    stale_in_s: float | None


async def run(
    db: Database,
    tables: Tables,
    definition: QueryDefinition[..., Any],
    arguments: dict[str, Any],
    viewer: Viewer,
    *,
    timeout_s: float,
) -> QueryOutcome:
    """Run the query and return its outcome. Raises `QueryFault` if it reads a table that it does not watch."""
    async with db.acquire() as conn:
        try:
            await conn.execute(_begin_statement(viewer, timeout_s))
        except BROKEN as error:
            raise Unavailable(f"could not start a transaction: {error}") from error
        try:
            async with TimeLimit(timeout_s, of=f"query {definition.name}"):
                return await _run_query(conn, tables, definition, arguments, viewer)
        finally:
            await _end(conn)


async def _end(conn: Connection) -> None:
    """Roll back, also on cancellation: a busy connection must not return to the pool. Nothing was written."""
    if is_gone(conn):
        return
    rollback = spawn(conn.execute("rollback", timeout=ROLLBACK_S))
    try:
        await asyncio.shield(rollback)
    except asyncio.CancelledError:
        await asyncio.wait({rollback})
        raise
    except BROKEN:
        conn.terminate()


def _begin_statement(viewer: Viewer, timeout_s: float) -> str:
    organization = "" if viewer.organization is None else str(viewer.organization)
    role = "" if viewer.everything else "set local role onceward_app; "
    return (
        f"begin isolation level repeatable read read only; {role}"
        f"set local onceward.organization = '{organization}'; set local statement_timeout = {int(timeout_s * 1000)}"
    )


async def _run_query(
    conn: Connection, tables: Tables, definition: QueryDefinition[..., Any], arguments: dict[str, Any], viewer: Viewer
) -> QueryOutcome:
    first = not definition.relations
    before = await scans(conn) if first else {}
    q = Query(conn, definition, viewer, tables)
    try:
        value = await definition.call(q, arguments)
    except Exception:
        raise
    except BaseException as error:
        failure = failure_of(error)
        raise failure from failure.__cause__
    if first:
        after = await scans(conn)
        _require_watched(definition, q, tables, (name for name, count in after.items() if count > before.get(name, 0)))
    for statement, count in q.statements.items():
        if statement not in definition.relations:
            definition.relations[statement] = await planned(conn, statement, count)
        _require_watched(definition, q, tables, definition.relations[statement])
    text = to_json(value)
    stale_in_s = q.soonest
    if q.until is not None:
        remaining_s: float = await conn.fetchval(REMAINING, q.until)
        stale_in_s = remaining_s if stale_in_s is None else min(remaining_s, stale_in_s)
    return QueryOutcome(text, digest(text), frozenset(q.dependencies), stale_in_s)


def _require_watched(definition: QueryDefinition[..., Any], q: Query, tables: Tables, read: Any) -> None:
    missing = sorted({tables.root(name) for name in read} - q.named)
    if missing:
        raise NotWatched(
            f"query {definition.name} reads {', '.join(missing)} without watching it and would miss changes; "
            f'add q.watch("{missing[0]}"), or q.ignore("{missing[0]}") if its changes do not matter'
        )


def to_json(value: Any) -> str:
    """Return a result as JSON text. Rows become objects; decimals become strings, because a browser would round
    them."""
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
    except TypeError as error:
        raise QueryFault(f"the result cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, asyncpg.Record | Mapping):
        return dict(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Decimal | UUID):  # orjson does not accept asyncpg's subclass of UUID
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset | tuple):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def digest(text: str) -> str:
    """Return the hash of a result, which is the same on every node."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
