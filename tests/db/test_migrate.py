"""Migrations are applied once, by the first node, and refused when the applied ones differ from the files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onceward.db import Database, MigrationError, migrate, plan
from onceward.db.errors import BrokenLine, ChangedFile, NewerSchema
from onceward.feature import Migrations


def write(directory: Path, *files: tuple[str, str]) -> Migrations:
    directory.mkdir(exist_ok=True)
    for name, sql in files:
        (directory / name).write_text(sql)
    return Migrations("shop", directory)


async def test_many_nodes_migrating_at_once_apply_each_file_once(db: Database, tmp_path: Path) -> None:
    line = write(tmp_path / "m", ("0001_a.sql", "create table a (x int)"), ("0002_b.sql", "create table b (x int)"))
    conns = [await db.connect() for _ in range(6)]
    done = await asyncio.gather(*(migrate(conn, [line]) for conn in conns))
    assert sorted(len(applied) for applied in done) == [0, 0, 0, 0, 0, 2]
    assert await plan(conns[0], [line]) == []
    for conn in conns:
        await conn.close()


async def test_a_failing_file_leaves_nothing_behind_and_is_named(db: Database, tmp_path: Path) -> None:
    line = write(tmp_path / "m", ("0001_a.sql", "create table a (x int); select 1/0"))
    async with db.acquire() as conn:
        with pytest.raises(MigrationError, match="shop/0001_a failed: division by zero"):
            await migrate(conn, [line])
        assert await conn.fetchval("select to_regclass('a')") is None
        assert [str(m) for m in await plan(conn, [line])] == ["shop/0001_a"]


async def test_an_edited_file_is_refused(db: Database, tmp_path: Path) -> None:
    line = write(tmp_path / "m", ("0001_a.sql", "select 1"))
    async with db.acquire() as conn:
        await migrate(conn, [line])
        write(tmp_path / "m", ("0001_a.sql", "select 2"))
        with pytest.raises(ChangedFile, match=r"`onceward db reset`.*put the change into a new migration"):
            await migrate(conn, [line])


async def test_older_code_is_refused_on_a_newer_database(db: Database, tmp_path: Path) -> None:
    line = write(tmp_path / "m", ("0001_a.sql", "select 1"), ("0002_b.sql", "select 2"))
    async with db.acquire() as conn:
        await migrate(conn, [line])
        (tmp_path / "m" / "0002_b.sql").unlink()
        with pytest.raises(
            NewerSchema, match=r"0002_b.*migrated by a newer version.*If the file was deleted, restore it"
        ):
            await plan(conn, [line])


@pytest.mark.parametrize("name", ["0002_a.sql", "first.sql", "1_a.sql"])
async def test_a_line_with_a_hole_or_a_bad_name_is_refused(db: Database, tmp_path: Path, name: str) -> None:
    line = write(tmp_path / "m", (name, "select 1"))
    async with db.acquire() as conn:
        with pytest.raises(BrokenLine, match="shop"):
            await plan(conn, [line])


CONCURRENT = """-- onceward: no transaction
/* two indexes; /* each by itself */ */
create index concurrently if not exists a_x on a (x);
create unique index concurrently if not exists a_y on a (y); -- fails on doubles; and is left invalid
"""


async def test_nodes_that_wait_do_not_block_an_index_that_is_built_concurrently(db: Database, tmp_path: Path) -> None:
    await db.execute("create table a (x int, y int); insert into a select n, n from generate_series(1, 2000) n")
    line = write(tmp_path / "m", ("0001_indexes.sql", CONCURRENT))
    conns = [await db.connect() for _ in range(4)]
    done = await asyncio.gather(*(migrate(conn, [line]) for conn in conns))
    assert sorted(len(applied) for applied in done) == [0, 0, 0, 1]
    assert await db.fetchval("select count(*) from pg_index where indrelid = 'a'::regclass and indisvalid") == 2
    for conn in conns:
        await conn.close()


async def test_an_index_that_a_failed_try_left_invalid_is_built_again(db: Database, tmp_path: Path) -> None:
    await db.execute("create table a (x int, y int); insert into a values (1, 1), (2, 1)")
    line = write(tmp_path / "m", ("0001_indexes.sql", CONCURRENT))
    async with db.acquire() as conn:
        with pytest.raises(MigrationError, match="shop/0001_indexes failed"):
            await migrate(conn, [line])
        assert await conn.fetchval("select not indisvalid from pg_index where indexrelid = 'a_y'::regclass")
        await conn.execute("delete from a where x = 2")
        assert [str(each) for each in await migrate(conn, [line])] == ["shop/0001_indexes"]
        assert await conn.fetchval("select indisvalid from pg_index where indexrelid = 'a_y'::regclass")
