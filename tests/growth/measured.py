"""What the statements of one request read, asked from PostgreSQL in the transaction and with the role that runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from onceward.db.pooled_connection import PooledConnection


@dataclass(frozen=True, slots=True)
class Read:
    """One statement: the rows that its scans read, the rows that it returned, and its pages."""

    query: str
    rows: int
    returned: int
    pages: int

    @property
    def unshown(self) -> int:
        return max(0, self.rows - self.returned)

    @property
    def name(self) -> str:
        """The beginning of the statement."""
        return " ".join(self.query.split())[:110]


@dataclass
class Reading:
    """The statements of one request."""

    statements: list[Read] = field(default_factory=list[Read])

    @property
    def pages(self) -> int:
        return sum(each.pages for each in self.statements)

    @property
    def rows(self) -> int:
        return sum(each.unshown for each in self.statements)

    @property
    def worst(self) -> Read:
        return max(self.statements, key=lambda each: max(each.rows, each.pages))


CURRENT: ContextVar[Reading | None] = ContextVar("reading", default=None)


def measure(patch: pytest.MonkeyPatch) -> None:
    """From now on, explain every query of a request that runs under `reading` before it runs."""
    run: Any = asyncpg.Connection._execute  # pyright: ignore

    async def explained(self: Any, query: str, args: Any, limit: int, timeout: Any, **options: Any) -> Any:
        reading = CURRENT.get()
        if reading is not None and isinstance(self, PooledConnection) and _only_reads(query):
            rows = await run(self, f"explain (analyze, buffers, timing off, format json) {query}", args, 0, timeout)
            plan = rows[0][0]
            top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
            pages = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
            reading.statements.append(Read(query, _rows_read(top), round(top["Actual Rows"]), pages))
        return await run(self, query, args, limit, timeout, **options)

    patch.setattr(asyncpg.Connection, "_execute", explained)


@contextmanager
def reading() -> Iterator[Reading]:
    made = Reading()
    token = CURRENT.set(made)
    try:
        yield made
    finally:
        CURRENT.reset(token)


def _only_reads(query: str) -> bool:
    lines = [line for line in query.lower().splitlines() if not line.strip().startswith("--")]
    text = " ".join(" ".join(lines).split())
    writes = ("insert into", "update ", "delete from", "for no key update", "nextval(", "set_config(", "pg_notify(")
    return text.startswith(("select", "with", "(select")) and not any(each in text for each in writes)


def _rows_read(plan: Any) -> int:
    own = 0
    if "Scan" in plan["Node Type"] and not plan.get("Relation Name", "pg_").startswith("pg_"):
        each = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        own = round(each * plan["Actual Loops"])
    return own + sum(_rows_read(child) for child in plan.get("Plans", ()))
