"""`db compact` and the doctor's checks of dead rows."""

from __future__ import annotations

import pytest

from onceward.cli.exits import CommandFailed
from onceward.db import Database, space
from onceward.db.commands.compact import _execute as execute  # pyright: ignore[reportPrivateUsage]
from onceward.db.commands.compact import _steps as steps_for  # pyright: ignore[reportPrivateUsage]
from onceward.doctor.space import check_old_snapshots, check_vacuum


async def bloat(db: Database) -> None:
    """Fill a table, then delete most of it: its pages and those of its index stay."""
    for statement in (
        "create table public.bloated (n bigint primary key, filler text) with (autovacuum_enabled = off)",
        "insert into public.bloated select n, 'xxxxxxxx' from generate_series(1, 500000) n",
        "delete from public.bloated where n % 50 <> 0",
        "vacuum analyze public.bloated",
    ):
        await db.execute(statement)


async def test_a_mostly_empty_index_is_rebuilt_and_the_free_space_of_its_table_is_reported(db: Database) -> None:
    await bloat(db)
    async with db.acquire() as conn:
        [table] = [each for each in await space.tables(conn) if each.name == "public.bloated"]
        assert table.free_bytes > 0.8 * await conn.fetchval("select pg_relation_size('public.bloated')")
        before = await space.indexes(conn)
        assert [each.name for each in before if each.worth_rebuilding] == ["public.bloated_pkey"]
        *_, (statement, text) = steps_for([table], before, [], [])
        assert "rebuild public.bloated_pkey" in text
        await execute(conn, statement, 5.0)
        assert [each for each in await space.indexes(conn) if each.worth_rebuilding] == []
        after = await conn.fetchval("select pg_relation_size('public.bloated_pkey')")
        assert after < before[0].bytes / 10
        await execute(conn, "vacuum (full, analyze) public.bloated", 5.0)
        [table] = [each for each in await space.tables(conn) if each.name == "public.bloated"]
        assert table.bytes < 4 * space.MIB


async def test_a_rewrite_gives_up_if_the_table_is_in_use(db: Database) -> None:
    await db.execute("create table public.busy (n int)")
    async with db.acquire() as other, db.acquire() as conn:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("lock table public.busy in access share mode")
        with pytest.raises(CommandFailed, match="the table was in use"):
            await execute(conn, "vacuum (full, analyze) public.busy", 0.1)
        await transaction.rollback()
        await execute(conn, "vacuum (full, analyze) public.busy", 0.1)


async def test_an_index_that_an_interrupted_rebuild_left_behind_is_dropped(db: Database) -> None:
    await db.execute("create table public.t (n int); insert into public.t values (1), (1)")
    async with db.acquire() as conn:
        with pytest.raises(Exception, match="duplicate"):
            await conn.execute("create unique index concurrently t_n_ccnew on public.t (n)")
        left = await space.left_over_indexes(conn)
        assert left == ["public.t_n_ccnew"]
        [(statement, _)] = steps_for([], [], left, [])
        await execute(conn, statement, 5.0)
        assert await space.left_over_indexes(conn) == []


async def test_the_doctor_names_a_table_without_autovacuum_and_an_old_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with db.acquire() as conn:
        assert (await check_vacuum(conn)).status == "ok"
        assert (await check_old_snapshots(conn)).status == "ok"
        await conn.execute("create table public.t (n int) with (autovacuum_enabled = off)")
        finding = await check_vacuum(conn)
        assert (finding.status, "public.t" in finding.finding) == ("fail", True)
        await conn.execute("alter table public.t reset (autovacuum_enabled)")
        monkeypatch.setattr(space, "LARGE_ROWS", -1)
        finding = await check_vacuum(conn)
        assert (finding.status, "autovacuum starts late" in finding.finding) == ("warn", True), "20 %, the default"
        monkeypatch.setattr("onceward.doctor.space.OLD_SNAPSHOT_S", 0.0)
        async with db.acquire() as other, other.transaction():
            pid = await other.fetchval("select pg_backend_pid()")
            finding = await check_old_snapshots(conn)
        assert (finding.status, f"pid {pid}" in finding.finding) == ("warn", True)
