"""Changed rows are found without triggers: in small tables, in large ones, and beside other sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.db import Database
from onceward.rehearsal.connection import RehearsalConnection
from onceward.rehearsal.connection import SeenKeys as Keys
from onceward.rehearsal.relations import read_relations
from onceward.rehearsal.row_changes import RowRecorder, Written

TABLES = """
create schema big;
create table big.rows (id uuid primary key, state text not null, body text not null);
create table big.numbered (id bigint generated always as identity primary key, body text not null);
create table big.small (a int, b int, note text, primary key (a, b));
create table big.keyless (note text);
alter table big.rows alter column body set storage plain;
insert into big.rows select gen_random_uuid(), 'old', repeat('x', 1500) from generate_series(1, 2000);
insert into big.numbered (body) select repeat('x', 1500) from generate_series(1, 2000);
insert into big.small select n, n, 'old' from generate_series(1, 5) n;
insert into big.keyless values ('one'), ('two'), ('two');
analyze;
"""
Look = Callable[..., Awaitable[Written]]


@pytest.fixture
async def look(db: Database) -> AsyncIterator[Look]:
    """Run statements in a transaction, and return what the recorder finds before it rolls back."""
    await db.execute(TABLES)
    inside: Any = await db.connect(connection_class=RehearsalConnection)
    outside = await db.connect()
    await outside.execute("set lock_timeout = 50")
    relations = await read_relations(outside)

    async def run(
        *statements: tuple[Any, ...] | str,
        scan_bytes: int = 1 << 30,
        meanwhile: Callable[[], Awaitable[Any]] | None = None,
    ) -> Written:
        recorder = RowRecorder(inside, outside, relations, scan_bytes=scan_bytes)
        await inside.execute("begin; insert into onceward.rehearsal_seals (work_id) values (1)")
        try:
            await recorder.begin()
            inside.seen = Keys()
            for each in statements:
                query, *given = (each,) if isinstance(each, str) else each
                await inside.fetch(query, *given)
            seen, inside.seen = inside.seen, None
            if meanwhile is not None:
                await meanwhile()
            return await recorder.written(seen)
        finally:
            await inside.execute("rollback")

    yield run
    await inside.close()
    await outside.close()


def told(written: Written) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    changes = [change for row in written.rows if (change := row.change()) is not None]
    return sorted(((each.table, each.verb, dict(each.before), dict(each.after)) for each in changes), key=str)


async def test_each_kind_of_change_is_found_and_nothing_else(look: Look, db: Database) -> None:
    async def others() -> None:
        await db.execute("update big.small set note = 'theirs' where a = 5")
        await db.execute("delete from big.keyless where note = 'one'")
        await db.execute("insert into big.small values (9, 9, 'theirs')")

    written = await look(
        "insert into big.small values (6, 6, 'new')",
        "savepoint s",
        "update big.small set note = 'first' where a = 1",
        "release savepoint s",
        "update big.small set note = 'second' where a = 1",
        "update big.small set a = 20 where a = 2",
        "delete from big.small where a = 3",
        "select * from big.small where a = 4 for update",
        "update big.small set note = 'old' where a = 4",
        "delete from big.keyless where ctid = (select ctid from big.keyless where note = 'two' limit 1)",
        "savepoint undone",
        "insert into big.small values (7, 7, 'undone')",
        "rollback to savepoint undone",
        meanwhile=others,
    )
    assert told(written) == [
        ("big.keyless", "delete", {"note": "two"}, {}),
        ("big.small", "delete", {"a": 2, "b": 2, "note": "old"}, {}),
        ("big.small", "delete", {"a": 3, "b": 3, "note": "old"}, {}),
        ("big.small", "insert", {}, {"a": 20, "b": 2, "note": "old"}),
        ("big.small", "insert", {}, {"a": 6, "b": 6, "note": "new"}),
        ("big.small", "update", {"note": "old"}, {"note": "second"}),
    ]
    assert written.unseen == {}
    assert told(await look("select 1")) == []  # the counters of the first run do not count in the second


async def test_rows_of_a_large_table_are_found_by_key_without_reading_it_whole(look: Look, db: Database) -> None:
    some: list[UUID] = [row["id"] for row in await db.fetch("select id from big.rows order by ctid offset 900 limit 2")]
    written = await look(
        ("update big.rows set state = 'new' where id = $1", some[0]),
        ("delete from big.rows where id = $1", some[1]),
        ("insert into big.rows values ($1, 'mine', 'b')", uuid4()),
        "insert into big.numbered (body) values ('n')",
        scan_bytes=0,
    )
    found = [(table, verb, after.get("state")) for table, verb, _, after in told(written)]
    assert found == [
        ("big.numbered", "insert", None),
        ("big.rows", "delete", None),
        ("big.rows", "insert", "mine"),
        ("big.rows", "update", "new"),
    ]
    assert written.unseen == {}


async def test_a_row_that_is_not_found_is_counted_and_found_if_the_table_may_be_read(look: Look) -> None:
    hidden = "delete from big.numbered where ctid = '(200,1)'"
    counted = await look(hidden, scan_bytes=0)
    assert (told(counted), counted.unseen) == ([], {"big.numbered": 1})
    found = await look(hidden)
    assert [(row.table, row.verb) for row in found.rows] == [("big.numbered", "delete")]


async def test_a_table_that_the_handler_has_locked_does_not_stop_the_rehearsal(look: Look) -> None:
    written = await look(
        "lock table big.small in access exclusive mode", "update big.small set note = 'new' where a = 1"
    )
    assert [row.after for row in written.rows] == [{"a": 1, "b": 1, "note": "new"}]
    assert written.unseen == {"big.small": 1}  # the version before could not be read
