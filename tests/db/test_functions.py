"""Function files: applied again when they change, together with the migrations, and never over a newer version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onceward.db import Database, FunctionFile, MigrationError, migrate, plan
from onceward.db.errors import BrokenLine, ChangedSignature, MissingFile
from onceward.db.status import status
from onceward.feature import Feature, Migrations

ONE = "-- Return one.\ncreate or replace function shop_one() returns int language sql as 'select 1';\n"
TWO = ONE.replace("select 1", "select 2")


def line(root: Path, **files: str) -> Migrations:
    """Write files (`m_0001_a` is a migration, `b_x` runs before the tables, `f_x` after) and return their owner `shop`."""
    folders = {"m": root / "migrations", "f": root / "functions", "b": root / "functions" / "before_tables"}
    for name, sql in files.items():
        kind, _, stem = name.partition("_")
        folders[kind].mkdir(parents=True, exist_ok=True)
        (folders[kind] / f"{stem}.sql").write_text(sql)
    return Migrations("shop", folders["m"], functions=folders["f"])


async def test_a_changed_file_is_applied_again_and_an_unchanged_one_is_not(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="create table a (x int)", f_shop_one=ONE, f_other=ONE.replace("_one", "_other"))
    async with db.acquire() as conn:
        applied = [str(item) for item in await migrate(conn, [shop])]
        assert applied == ["shop/0001_a", "shop/functions/other.sql", "shop/functions/shop_one.sql"]
        before = await conn.fetchval("select xmin::text from pg_proc where proname = 'shop_other'")
        assert await migrate(conn, [shop]) == []
        line(tmp_path, f_shop_one=TWO)
        assert [str(item) for item in await migrate(conn, [shop])] == ["shop/functions/shop_one.sql"]
        assert await conn.fetchval("select shop_one()") == 2
        assert await conn.fetchval("select xmin::text from pg_proc where proname = 'shop_other'") == before


async def test_nodes_that_migrate_at_once_apply_each_function_once(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="create table a (x int)", f_shop_one=ONE)
    conns = [await db.connect() for _ in range(5)]
    assert sorted(len(each) for each in await asyncio.gather(*(migrate(conn, [shop]) for conn in conns))) == [
        0,
        0,
        0,
        0,
        2,
    ]
    line(tmp_path, f_shop_one=TWO)
    assert sorted(len(each) for each in await asyncio.gather(*(migrate(conn, [shop]) for conn in conns))) == [
        0,
        0,
        0,
        0,
        1,
    ]
    for conn in conns:
        await conn.close()


async def test_functions_share_the_transaction_of_the_last_migration(db: Database, tmp_path: Path) -> None:
    shop = line(
        tmp_path,
        m_0001_a="create table a (x int)",
        m_0002_b="create table b (x int)",
        f_bad="-- Fails.\ncreate or replace function shop_bad() returns int\n    language sql as\n'select no_such_column from b';\n",
    )
    async with db.acquire() as conn:
        with pytest.raises(MigrationError, match=r"shop/functions/bad.sql line 4 failed: .*no_such_column"):
            await migrate(conn, [shop])
        assert await conn.fetchval("select to_regclass('a') is not null and to_regclass('b') is null")
        assert [str(item) for item in await plan(conn, [shop])] == ["shop/0002_b", "shop/functions/bad.sql"]


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("-- Fails.\n\ncreate or replace function f() returns int lnguage sql as 'select 1';", "line 3 failed: syntax"),
        (
            "-- Fails.\ncreate or replace function f() returns int language plpgsql as $$\nbegin\n  retrn 1;\nend $$;",
            "line 4",
        ),
        ("-- Fails.\nselect 1;\n\n-- Why.\ncreate or replace view a as select 1;", 'line 5 failed: "a" is not a view'),
        (
            "-- Cannot be repeated.\ncreate function f() returns int language sql as 'select 1';",
            "line 2 failed: .*already exists",
        ),
    ],
)
async def test_an_error_names_the_file_and_the_line(db: Database, tmp_path: Path, sql: str, place: str) -> None:
    shop = line(tmp_path, m_0001_a="create table a (x int)", f_bad=sql)
    async with db.acquire() as conn:
        with pytest.raises(MigrationError, match=rf"^shop/functions/bad\.sql {place}"):
            await migrate(conn, [shop])
        assert await conn.fetchval("select to_regclass('a')") is None


async def test_functions_may_call_each_other_and_tables_may_use_those_that_run_before(
    db: Database, tmp_path: Path
) -> None:
    shop = line(
        tmp_path,
        b_first="-- Count.\ncreate or replace function shop_first() returns bigint language sql stable as 'select count(*) from a';\n",
        m_0001_a="create table a (x int default shop_first())",
        f_calls="-- Call a file that comes later.\ncreate or replace function shop_calls() returns int language sql as 'select shop_one()';\n",
        f_shop_one=ONE,
    )
    async with db.acquire() as conn:
        await migrate(conn, [shop])
        await conn.execute("insert into a default values; insert into a default values")
        assert await conn.fetchval("select array_agg(x order by x) from a") == [0, 1]
        assert await conn.fetchval("select shop_calls()") == 1


async def test_a_changed_argument_list_needs_a_new_name(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="select 1", f_shop_one=ONE)
    changed = ONE.replace("shop_one()", "shop_one(p_more int)")
    async with db.acquire() as conn:
        await migrate(conn, [shop])
        line(tmp_path, f_shop_one=changed)
        with pytest.raises(
            ChangedSignature, match=r"functions/shop_one.sql .*shop_one\(\).*shop_one\(integer\).*new name"
        ):
            await migrate(conn, [shop])
        assert await conn.fetchval("select count(*) from pg_proc where proname = 'shop_one'") == 1
        line(tmp_path, f_shop_one=ONE, f_shop_one_of=changed.replace("shop_one", "shop_one_of"))
        await migrate(conn, [shop])
        assert await conn.fetchval("select shop_one() + shop_one_of(3)") == 2


async def test_a_changed_result_is_refused_with_the_file(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="select 1", f_shop_one=ONE)
    async with db.acquire() as conn:
        await migrate(conn, [shop])
        line(tmp_path, f_shop_one=ONE.replace("returns int", "returns bigint"))
        with pytest.raises(MigrationError, match=r"shop_one.sql line 2 failed: cannot change return type"):
            await migrate(conn, [shop])


async def test_a_process_with_older_files_leaves_newer_functions_in_place(db: Database, tmp_path: Path) -> None:
    old = line(tmp_path / "old", m_0001_a="select 1", f_shop_one=ONE)
    new = line(tmp_path / "new", m_0001_a="select 1", f_shop_one=TWO)
    async with db.acquire() as conn:
        await migrate(conn, [old])
        await migrate(conn, [new])
        assert await migrate(conn, [old]) == []
        assert await conn.fetchval("select shop_one()") == 2
        assert (await status(conn, [old]))[0].newer_functions == ["shop/functions/shop_one.sql"]
        await migrate(conn, [old], reapply_functions=True)
        assert await conn.fetchval("select shop_one()") == 1
        assert (await status(conn, [old]))[0].newer_functions == []


async def test_a_removed_file_leaves_its_function_until_a_migration_drops_it(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="select 1", f_shop_one=ONE)
    async with db.acquire() as conn:
        await migrate(conn, [shop])
        (tmp_path / "functions" / "shop_one.sql").unlink()
        assert await migrate(conn, [shop]) == []
        assert await conn.fetchval("select shop_one()") == 1
        assert (await status(conn, [shop]))[0].functions_without_file == ["shop_one"]
        line(tmp_path, m_0002_drop="drop function shop_one()")
        await migrate(conn, [shop])
        assert await conn.fetchval("select to_regproc('shop_one')") is None


async def test_status_lists_pending_functions(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="select 1", f_shop_one=ONE)
    async with db.acquire() as conn:
        [before] = await status(conn, [shop])
        assert (before.pending_migrations, before.pending_functions) == (
            ["shop/0001_a"],
            ["shop/functions/shop_one.sql"],
        )
        await migrate(conn, [shop])
        [after] = await status(conn, [shop])
        assert (after.pending_migrations, after.pending_functions, after.functions) == ([], [], 1)


async def test_a_migration_outside_a_transaction_is_followed_by_the_functions(db: Database, tmp_path: Path) -> None:
    concurrent = "-- onceward: no transaction\ncreate index concurrently if not exists a_x on a (x);"
    shop = line(tmp_path, m_0001_a="create table a (x int)", m_0002_index=concurrent, f_shop_one=ONE)
    async with db.acquire() as conn:
        assert [type(item) is FunctionFile for item in await migrate(conn, [shop])] == [False, False, True]
        assert await conn.fetchval("select shop_one()") == 1


async def test_a_deleted_migration_is_not_blamed_on_a_newer_version(db: Database, tmp_path: Path) -> None:
    shop = line(tmp_path, m_0001_a="select 1", m_0002_b="select 2", m_0003_c="select 3", f_shop_one=ONE)
    async with db.acquire() as conn:
        await migrate(conn, [shop])
        (tmp_path / "migrations" / "0002_b.sql").unlink()
        with pytest.raises(MissingFile, match=r"shop migration 0002_b is missing.*restore the file"):
            await plan(conn, [shop])
        line(tmp_path, m_0002_b="select 2", f_shop_one=TWO)
        (tmp_path / "migrations" / "0003_c.sql").unlink()
        with pytest.raises(MissingFile, match=r"0003_c.*was deleted, or another branch"):
            await plan(conn, [shop])


async def test_bad_names_are_refused(db: Database, tmp_path: Path) -> None:
    async with db.acquire() as conn:
        with pytest.raises(BrokenLine, match=r"two function files are named x\.sql"):
            await plan(conn, [line(tmp_path / "a", m_0001_a="select 1", f_x=ONE, b_x=ONE)])
        with pytest.raises(BrokenLine, match=r"functions/X y.sql is not a valid name"):
            await plan(conn, [line(tmp_path / "b", m_0001_a="select 1", **{"f_X y": ONE})])
    with pytest.raises(ValueError, match="functions and no migrations"):
        Feature(name="shop", functions=tmp_path)
