"""Migrations: applied once, by whoever comes first, and refused when the past does not agree."""

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
        with pytest.raises(ChangedFile, match="put the change into a new migration"):
            await migrate(conn, [line])


async def test_older_code_is_refused_on_a_newer_database(db: Database, tmp_path: Path) -> None:
    line = write(tmp_path / "m", ("0001_a.sql", "select 1"), ("0002_b.sql", "select 2"))
    async with db.acquire() as conn:
        await migrate(conn, [line])
        (tmp_path / "m" / "0002_b.sql").unlink()
        with pytest.raises(NewerSchema, match="migrated by a newer version"):
            await plan(conn, [line])


@pytest.mark.parametrize("name", ["0002_a.sql", "first.sql", "1_a.sql"])
async def test_a_line_with_a_hole_or_a_bad_name_is_refused(db: Database, tmp_path: Path, name: str) -> None:
    line = write(tmp_path / "m", (name, "select 1"))
    async with db.acquire() as conn:
        with pytest.raises(BrokenLine, match="shop"):
            await plan(conn, [line])
