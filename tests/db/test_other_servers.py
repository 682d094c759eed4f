"""The same promises on the oldest server we support, and through a pooler that shares sessions."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pydantic import SecretStr

from onceward import Job, Onceward, Tx
from onceward.db import MigrationError
from onceward.doctor.examination import examine_database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.work.settings import WorkSettings


def counting_app() -> Onceward:
    app = Onceward("counting")

    @app.job
    async def count(job: Job, tx: Tx, *, n: int) -> int:
        await tx.execute("insert into public.counted values ($1)", n)
        return n + 1

    app.count = count  # type: ignore[attr-defined]
    return app


async def as_login(url: str, statements: str) -> None:
    """Run statements as the login, not as the engine: the engine may not create tables."""
    conn = await asyncpg.connect(url)
    await conn.execute(statements)
    await conn.close()


async def run_ten_jobs(app: Onceward, settings: Settings, *, owner_url: str | None = None) -> None:
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"worker"})
    try:
        assert runtime.engine is not None
        await as_login(
            owner_url or runtime.database.url,
            "create table if not exists public.counted (n int);"
            " grant all on public.counted to onceward_app, onceward_engine",
        )
        enqueued = await asyncio.gather(*(runtime.engine.enqueue(app.count, n=n) for n in range(10)))  # type: ignore[attr-defined]
        results = [await runtime.engine.wait(each.id) for each in enqueued]
        assert [result.result for result in results] == [n + 1 for n in range(10)]
        assert await runtime.database.fetchval("select array_agg(n order by n) from public.counted") == list(range(10))
    finally:
        await runtime.stop()


@pytest.mark.peer
async def test_postgresql_15_migrates_and_runs_work(postgres15: str) -> None:
    conn = await asyncpg.connect(postgres15)
    assert str(await conn.fetchval("show server_version")).startswith("15")
    await conn.close()
    settings = Settings(database_url=SecretStr(postgres15), pool_max=8).using(WorkSettings(poll_interval_ms=50))
    await run_ten_jobs(counting_app(), settings)
    findings = {item.check: item.status for item in await examine_database(postgres15, settings, FEATURES)}
    assert findings["server"] == findings["migrations"] == findings["roles"] == findings["rights"] == "ok"


@pytest.mark.peer
async def test_pgbouncer_in_transaction_mode_runs_work(pgbouncer: str) -> None:
    settings = Settings(database_url=SecretStr(pgbouncer), pgbouncer=True, pool_max=8).using(
        WorkSettings(poll_interval_ms=50)
    )
    await run_ten_jobs(counting_app(), settings)


@pytest.mark.peer
async def test_pending_migrations_are_not_tried_through_pgbouncer(pgbouncer: str, database_url: str) -> None:
    conn = await asyncpg.connect(database_url)
    await conn.execute("create database pending_" + database_url.split("/test_")[1][:12])
    await conn.close()
    url = pgbouncer.replace("/test_", "/pending_")
    direct = database_url.replace("/test_", "/pending_")
    try:
        with pytest.raises(MigrationError, match="ONCEWARD_MIGRATION_URL"):
            await Process(counting_app(), Settings(database_url=SecretStr(url), pgbouncer=True), FEATURES).start(
                {"worker"}
            )
        settings = Settings(database_url=SecretStr(url), migration_url=SecretStr(direct), pgbouncer=True).using(
            WorkSettings(poll_interval_ms=50)
        )
        await run_ten_jobs(counting_app(), settings)
    finally:
        conn = await asyncpg.connect(database_url)
        await conn.execute("drop database pending_" + database_url.split("/test_")[1][:12] + " with (force)")
        await conn.close()
