"""A unique key that is taken says "already done" only for work that has succeeded, and only if others hold the key."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.rehearsal.effects import Rehearsal
from onceward.testing import drain
from tests.rehearsal.test_rehearser import rehearse

TABLES = """
create schema till;
create table till.sales (id uuid primary key default gen_random_uuid(), organization_id uuid, number text,
    line int not null default 1, unique (number, line));
create unique index once_per_name on till.sales (lower(number)) where line = 9;
create table till.slots (during int4range not null, exclude using gist (during with &&));
create table till.hidden (number text primary key);
alter table till.hidden enable row level security;
create policy everybody on till.hidden for all to onceward_app using (true) with check (true);
grant usage on schema till to onceward_app;
grant select, insert, update, delete on all tables in schema till to onceward_app;
"""
SALE = "insert into till.sales (number, line) values ($1, $2)"


def make_app(*, twice: bool = False) -> Onceward:
    """Return an app of which the new version (`twice`) inserts a row that the old one inserted once, again."""
    app = Onceward("till")

    @app.job(name="sell")
    async def sell(tx: Tx, *, number: str, line: int) -> None:
        await tx.execute("insert into till.sales (number, line) values (gen_random_uuid()::text, 1)")
        await tx.execute(SALE, number, line)

    @app.job(name="tag")
    async def tag(tx: Tx, *, number: str) -> None:
        """Insert nothing that was inserted before; the new version inserts its own row twice."""
        for _ in range(2 if twice else 1):
            await tx.execute("insert into till.sales (number, line) values ($1 || txid_current()::text, 9)", number)

    @app.job(name="book")
    async def book(tx: Tx, *, start: int) -> None:
        await tx.execute("insert into till.slots values (int4range($1, $1 + 5))", start)

    @app.job(name="hide")
    async def hide(tx: Tx, *, number: str) -> None:
        for one in (number, number) if twice else (number,):
            await tx.execute("insert into till.hidden values ($1)", one)

    return app


async def prepared(db: Database) -> Engine:
    async with db.acquire() as conn:
        await conn.execute("reset role")
        await conn.execute(TABLES)
    return Engine(db, make_app().registry)


async def enqueued(db: Database, name: str, **arguments: Any) -> int:
    id = await db.fetchval("select onceward.enqueue($1, $2::jsonb)", name, arguments)
    await db.execute("update onceward.work set queue = 'default' where id = $1", id)
    return id


def verdict(one: Rehearsal) -> tuple[str, bool]:
    return one.state, one.already_done is not None


async def test_finished_work_whose_row_is_committed_is_already_done(db: Database) -> None:
    engine = await prepared(db)
    ids = [
        await enqueued(db, "sell", number="K-7, a", line=2),  # found by the key in the error: two rows were written
        await enqueued(db, "sell", number="Name", line=9),  # by an expression, in a part of the table
        await enqueued(db, "book", start=10),
        await enqueued(db, "hide", number="secret"),
    ]
    await drain(engine)
    assert [verdict(one) for one in await rehearse(engine, *ids)] == [
        ("failed", False),  # a comma in the value: not known, so it is not hidden
        ("failed", True),
        ("failed", True),
        ("failed", True),
    ]


async def test_work_that_has_never_succeeded_fails(db: Database) -> None:
    engine = await prepared(db)
    await db.execute(SALE, "K-7", 2)
    waits = await enqueued(db, "sell", number="K-7", line=2)
    [shown] = await rehearse(engine, waits)
    assert verdict(shown) == ("failed", False)
    assert shown.failure is not None
    assert shown.failure.type == "UniqueViolationError"


@pytest.mark.parametrize(("name", "arguments"), [("tag", {"number": "T"}), ("hide", {"number": "H"})])
async def test_new_code_that_inserts_twice_is_not_a_repetition(
    db: Database, name: str, arguments: dict[str, str]
) -> None:
    engine = await prepared(db)
    id = await enqueued(db, name, **arguments)
    await drain(engine)
    await db.execute("delete from till.hidden")
    bad = Engine(db, make_app(twice=True).registry)
    [shown] = await rehearse(bad, id)
    assert verdict(shown) == ("failed", False)
