"""`db reset` and `db status`: what a developer does after an applied migration was edited."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest

from onceward.db import Database, MigrationError, migrate
from onceward.db import reset as resetting
from onceward.db.reset import drop_everything
from onceward.feature import Migrations
from onceward.runtime import FEATURES
from tests.cli.conftest import CommandLine


def fetch(url: str, query: str) -> object:
    async def run() -> object:
        conn = await asyncpg.connect(url)
        try:
            return await conn.fetchval(query)
        finally:
            await conn.close()

    return asyncio.run(run())


EDITED = "update onceward.migrations set checksum = 'older' where owner = 'work' returning 1"


def test_an_old_development_database_is_refused_and_the_named_command_resets_it(
    cli: CommandLine, database_url: str
) -> None:
    fetch(database_url, EDITED)
    fetch(database_url, "insert into onceward.queues (name) values ('left over') returning 1")
    refused = cli("migrate", ONCEWARD_DATABASE_URL=database_url)
    assert refused.returncode == 5
    assert "work/0001_work was changed after it was applied" in refused.stderr
    assert "`onceward db reset`" in refused.stderr
    name = str(fetch(database_url, "select current_database()"))
    done = cli("db", "reset", "--database-name", name, ONCEWARD_DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    assert fetch(database_url, "select count(*) from onceward.queues where name = 'left over'") == 0
    owners = json.loads(cli("db", "status", "--json", ONCEWARD_DATABASE_URL=database_url).stdout)
    assert {owner["owner"] for owner in owners} >= {"trust", "work", "ticketing"}
    assert not any(owner["pending_migrations"] or owner["pending_functions"] for owner in owners)


@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        (["--yes"], {}, "add --database-name test_"),
        (["--database-name", "other"], {}, "nothing was deleted: the database is 'test_"),
        (["--database-name", "other", "--yes"], {}, "nothing was deleted"),
        (["--yes"], {"ONCEWARD_ENVIRONMENT": "production"}, "ONCEWARD_ENVIRONMENT is production"),
    ],
)
def test_a_database_on_a_server_is_reset_only_by_its_exact_name(
    cli: CommandLine, database_url: str, options: list[str], variables: dict[str, str], words: str
) -> None:
    refused = cli("db", "reset", *options, ONCEWARD_DATABASE_URL=database_url, **variables)
    assert refused.returncode != 0
    assert words in refused.stderr
    assert fetch(database_url, "select to_regclass('onceward.work') is not null")


def test_status_shows_a_pending_function(cli: CommandLine, database_url: str) -> None:
    fetch(database_url, "delete from onceward.functions where owner = 'work' and name = 'enqueue' returning 1")
    shown = cli("db", "status", ONCEWARD_DATABASE_URL=database_url)
    assert "work/functions/enqueue.sql" in shown.stdout


async def test_a_reset_drops_what_an_app_made_in_public_and_nothing_else(db: Database, tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "functions").mkdir()
    (tmp_path / "migrations" / "0001_orders.sql").write_text(
        "create schema shop; create table shop.a (x int); create table orders (id int); create type colour as enum ('red');"
        " create sequence numbers;"
    )
    (tmp_path / "functions" / "total.sql").write_text(
        "-- Total.\ncreate or replace function total() returns int language sql as 'select 1';"
        "create or replace view sums as select count(*) from orders;"
    )
    shop = Migrations("shop", tmp_path / "migrations", functions=tmp_path / "functions")
    lines = [*FEATURES.migrations, shop]
    async with db.acquire() as conn:
        await migrate(conn, lines)
        await conn.execute("create table mine (id int); create table strangers (id int)")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "0001_a.sql").write_text("create table strangers (id int)")
        await drop_everything(conn, [*lines, Migrations("never_applied", tmp_path / "other")])
        left = await conn.fetchval(
            "select array_agg(relname::text order by relname) from pg_class where relnamespace = 'public'::regnamespace"
        )
        assert left == ["mine", "strangers"]
        assert await conn.fetchval("select to_regproc('total') is null and to_regtype('colour') is null")
        assert await conn.fetchval("select to_regnamespace('shop') is null and to_regnamespace('webhook') is null")
        assert len(await migrate(conn, lines)) > 100


async def test_a_reset_that_waits_for_another_session_drops_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resetting, "LOCK_TIMEOUT_S", 0.1)
    async with db.acquire() as conn, db.acquire() as other:
        async with other.transaction():
            await other.execute("lock table onceward.jobs in access share mode")
            with pytest.raises(MigrationError, match="stop all processes that use the database"):
                await drop_everything(conn, FEATURES.migrations)
        assert await conn.fetchval("select to_regclass('onceward.work') is not null")
