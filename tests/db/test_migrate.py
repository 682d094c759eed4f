"""Migrations are applied once, by the first node, and refused when the applied ones differ from the files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from onceward.cli.exits import Exit, code_for, explain
from onceward.db import Database, MigrationError, migrate, migrations, plan
from onceward.db.commands.migrate import _migrate
from onceward.db.errors import BrokenLine, ChangedFile, NewerSchema
from onceward.feature import Migrations
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until


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


FILES = (
    ("0001_a.sql", "create table a (x int)"),
    ("0002_b.sql", "-- onceward: expand\nalter table a add y int"),
    (
        "0003_c.sql",
        "-- onceward: expand\n-- onceward: no transaction\ncreate index concurrently if not exists a_x on a (x)",
    ),
    ("0004_d.sql", "-- onceward: expand\ninsert into a values (1, 1)"),
)


async def test_a_migration_that_loses_its_session_at_any_file_says_so_and_is_continued(
    db: Database, tmp_path: Path, monkeypatch
) -> None:
    """Each run applies one file, and loses its session in the middle of the next one."""
    line = write(tmp_path / "m", *FILES)
    record = migrations._record
    pending = [len(FILES)]
    failures: list[Exception] = []
    while pending[-1]:
        conn, left = await db.connect(), [1]

        async def die(conn, migration, left=left) -> None:
            if not left[0]:
                await conn.execute("select pg_terminate_backend(pg_backend_pid())")
            left[0] -= 1
            await record(conn, migration)

        monkeypatch.setattr(migrations, "_record", die)
        try:
            await migrate(conn, [line])
        except Exception as error:
            failures.append(error)
        await conn.close()
        async with db.acquire() as again:
            pending.append(len(await plan(again, [line])))
    assert pending == [4, 3, 2, 1, 0]
    assert {code_for(error, FEATURES) for error in failures} <= {Exit.DATABASE, Exit.MIGRATION}
    assert all("run the command again" in explain(error) or "failed" in explain(error) for error in failures)
    assert await db.fetchval("select count(*) from a") == 1


async def test_the_loser_of_two_migrations_waits_and_says_so(db: Database, database_url: str, tmp_path: Path) -> None:
    line = write(tmp_path / "m", *FILES)
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path)
    winner = await db.connect()
    await migrations._lock(winner)
    with capture_logs() as logs:
        loser = asyncio.create_task(_migrate([line], settings, only_plan=False, reapply_functions=False))
        await until(lambda: any(each["event"] == "migration.waiting" for each in logs))
        assert len(await migrate(winner, [line])) == 4
        await winner.close()
        assert await loser == ([], [])


@pytest.mark.parametrize("statement", ["select from onceward.nothing", "select onceward.nothing()"])
async def test_a_command_on_a_database_without_our_schema_names_migrate(db: Database, statement: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await db.execute(statement)
    assert code_for(refused.value, FEATURES) == Exit.MIGRATION
    assert "run `onceward migrate`" in explain(refused.value)
