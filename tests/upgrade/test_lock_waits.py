"""A migration that does not get its lock lets the traffic pass, tells who is in the way, and tries again."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from onceward.db import Database, LockWaits, Patience, migrate
from onceward.db.errors import LockNotAcquired
from onceward.feature import Migrations
from onceward.testing import until
from tests.queries import WAITS_FOR_TABLE
from tests.upgrade.releases import EXPAND, FIRST, release

HURRY = Patience(lock_timeout_ms=150, first_pause_s=0.05, longest_pause_s=0.05)
SECRET = "4111111111111111"


async def prepared(db: Database, folder: Path) -> tuple[Migrations, asyncpg.Connection[asyncpg.Record]]:
    """A release with a change of the table, and a session that has read the table in a transaction and is idle now."""
    async with db.acquire() as conn:
        await migrate(conn, [release(folder, FIRST)])
    reader = await db.connect(application_name="report")
    await reader.execute(f"begin; select * from orders where label = '{SECRET}'")
    return release(folder, EXPAND), reader


async def insert(db: Database, id: int, *, limit_ms: int) -> None:
    """Traffic: raises if it had to wait for longer."""
    async with db.acquire() as conn, conn.transaction():
        await conn.execute(f"set local statement_timeout = {limit_ms}")
        await conn.execute("insert into orders (id) values ($1)", id)


async def waits_for_lock(db: Database) -> bool:
    return bool(await db.fetchval(WAITS_FOR_TABLE, "orders"))


async def test_without_a_lock_timeout_a_long_reader_and_a_change_of_the_table_stop_the_traffic(
    db: Database, tmp_path: Path
) -> None:
    """The twin of the next test: this is what a migration must not do."""
    _, reader = await prepared(db, tmp_path)
    changer = await db.connect()
    change = asyncio.create_task(changer.execute("alter table orders add column title text"))
    await until(lambda: waits_for_lock(db))
    with pytest.raises(asyncpg.QueryCanceledError):
        await insert(db, 1, limit_ms=400)
    await reader.close()
    await change
    await changer.close()


async def test_a_migration_that_waits_for_a_long_reader_lets_the_traffic_pass(db: Database, tmp_path: Path) -> None:
    line, reader = await prepared(db, tmp_path)
    conn = await db.connect(application_name="migrating")
    waits = LockWaits(HURRY, partial(db.connect, application_name="watching"))
    with capture_logs() as logs:
        migrating = asyncio.create_task(migrate(conn, [line], waits=waits))
        for id in range(5):
            await until(lambda: waits_for_lock(db))
            await insert(db, id, limit_ms=10_000)  # passes although the reader is still there
        assert not migrating.done()
        await until(lambda: any("pid" in each.get("blocked_by", "") for each in logs))
        await reader.close()
        assert [str(each) for each in await migrating] == ["shop/0002_title"]
    await conn.close()
    waiting = [each for each in logs if each["event"] == "migration.waiting"]
    assert [each["attempt"] for each in waiting] == list(range(1, len(waiting) + 1))
    blocked = next(each for each in waiting if "pid" in each["blocked_by"])
    assert blocked["migration"] == "shop/0002_title"
    assert "idle in transaction for 0 s, last statement " in blocked["blocked_by"]
    assert "application report" in blocked["blocked_by"]
    assert SECRET not in str(logs)
    assert "label" not in str(logs)


async def test_a_migration_that_gives_up_leaves_nothing_behind_and_can_be_repeated(
    db: Database, tmp_path: Path
) -> None:
    line, reader = await prepared(db, tmp_path)
    pid = reader.get_server_pid()
    conn = await db.connect()
    waits = LockWaits(Patience(lock_timeout_ms=300, give_up_after_s=0.1), db.connect)
    with pytest.raises(LockNotAcquired, match=f"shop/0002_title did not get its locks .* in the way: pid {pid}"):
        await migrate(conn, [line], waits=waits)
    await reader.close()
    assert [str(each) for each in await migrate(conn, [line])] == ["shop/0002_title"]
    await conn.close()


async def test_an_index_that_is_built_concurrently_waits_longer_than_the_lock_timeout(
    db: Database, tmp_path: Path
) -> None:
    _, reader = await prepared(db, tmp_path)
    await reader.execute("insert into orders (id) values (7)")
    sql = "-- onceward: expand\n-- onceward: no transaction\ncreate index concurrently if not exists by_label on orders (label);"
    line = release(tmp_path, ("0002_title.sql", sql))
    conn = await db.connect()
    with capture_logs() as logs:
        migrating = asyncio.create_task(migrate(conn, [line], waits=LockWaits(HURRY, db.connect)))
        await until(lambda: _waits(db, conn.get_server_pid()))
        await insert(db, 1, limit_ms=10_000)
        await asyncio.sleep(3 * HURRY.lock_timeout_ms / 1000)
        assert not migrating.done()
        await reader.execute("commit")
        await migrating
    assert [each for each in logs if each["event"] == "migration.waiting" and "attempt" in each] == []
    await reader.close()
    await conn.close()


async def _waits(db: Database, pid: int) -> bool:
    return bool(await db.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid))
