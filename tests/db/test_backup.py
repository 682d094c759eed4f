"""A base backup and the archived log restore any moment. This is the procedure of docs/backup.md, run on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.db.embedded.account import SystemAccount
from onceward.db.embedded.server import find_binaries
from onceward.runtime import FEATURES
from onceward.testing import drain, until
from onceward.trust import verify
from onceward.work.recovery import recover

pytestmark = pytest.mark.slow
app = Onceward("backed_up")
calls: list[tuple[str, int]] = []
"""What the outside service got: key and order."""


@app.job
async def place(tx: Tx, *, n: int) -> None:
    await tx.execute("insert into orders values ($1)", n)
    await tx.enqueue(notify, n=n)


@app.job(outside=True)
async def notify(job: Job, *, n: int) -> None:
    calls.append((job.key("notify"), n))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Engine]:
    server = EmbeddedPostgres(folder)
    db = await Database.open(await asyncio.to_thread(server.start), min_size=1, max_size=4)
    yield Engine(db, app.registry)
    await db.close()
    await asyncio.to_thread(server.stop)


async def prepare(folder: Path, archive: Path) -> None:
    """Create the tables, and archive the log from the next start on."""
    async with opened(folder) as engine:
        conn = await engine.db.connect()
        await migrate(conn, FEATURES.migrations)
        await conn.execute("create table orders (n int); grant select, insert on orders to onceward_app")
        await conn.execute("alter system set archive_mode = 'on'")
        await conn.execute(f"alter system set archive_command = 'cp %p {archive}/%f'")
        await conn.close()


async def order(engine: Engine, n: int) -> None:
    await engine.enqueue(place, n=n)
    await drain(engine)


async def test_a_restore_to_a_point_in_time_continues_without_using_a_key_twice(tmp_path: Path) -> None:
    source, archive, base = tmp_path / "source", tmp_path / "archive", tmp_path / "restored"
    archive.mkdir()
    base.mkdir()
    account = SystemAccount.choose(source, find_binaries())
    account.own(archive)
    await prepare(source, archive)
    async with opened(source) as engine:
        await order(engine, 1)
        socket = source / "pg"
        backup = [account.program("pg_basebackup"), "-h", socket.resolve(), "-U", "postgres", "-D", base / "pg"]
        made = await asyncio.to_thread(account.run, [*backup, "--checkpoint=fast"], timeout_s=120)
        assert made.code == 0, made.output
        await order(engine, 2)
        await engine.enqueue(place, n=3)  # stored, and not yet run, at the moment that will be restored
        await engine.enqueue(notify, n=30)
        moment = await engine.db.fetchval("select clock_timestamp()::text")
        await drain(engine)
        await order(engine, 4)
        lost = list(calls)
        segment = await engine.db.fetchval("select pg_walfile_name(pg_switch_wal())")
        await until(lambda: (archive / segment).exists(), timeout_s=60)

    restored = base / "pg"
    with (restored / "postgresql.auto.conf").open("a") as conf:
        conf.write(f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_time = '{moment}'\n")
        conf.write("recovery_target_action = 'promote'\narchive_mode = 'off'\n")
    (restored / "recovery.signal").touch()
    account.own(restored / "recovery.signal")
    # The embedded server has its socket in the data directory.
    (restored / ".s.PGSQL.5432.lock").unlink(missing_ok=True)

    async with opened(base) as engine:
        await until(lambda: _promoted(engine.db), timeout_s=60)
        assert [row["n"] for row in await engine.db.fetch("select n from orders order by n")] == [1, 2]
        recovery = await recover(engine.db, actor="test", observe_s=0)
        assert [(each.task, each.count) for each in recovery.unfinished] == [
            ("notify", 1),
            ("place", 1),
        ]
        await drain(engine)
        await order(engine, 5)
        assert [row["n"] for row in await engine.db.fetch("select n from orders order by n")] == [1, 2, 3, 5]
        fresh = calls[len(lost) :]
        assert sorted(n for _, n in fresh) == [3, 5, 30]
        assert not {key for key, n in fresh if n == 5} & {key for key, _ in lost}  # a new order never has an old key
        assert [key for key, n in fresh if n == 30] == [
            key for key, n in lost if n == 30
        ]  # the service does nothing twice
        assert [key for key, n in fresh if n == 3] != [key for key, n in lost if n == 3]  # as docs/backup.md says
        checks = [check for checks in FEATURES.load("checks") for check in checks]
        assert [(one.name, one.problems) for one in await verify(engine.db, checks) if not one.ok] == []


async def _promoted(db: Database) -> bool:
    return not await db.fetchval("select pg_is_in_recovery()")
