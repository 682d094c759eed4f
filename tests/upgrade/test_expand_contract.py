"""Old code keeps running on a schema that was expanded, and a schema is contracted only when no running code needs the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.db import Database, MigrationError, migrate, plan
from onceward.db.configured import ConfiguredDatabase
from onceward.db.errors import BrokenLine, NewerSchema
from onceward.db.migration_files import known, read
from onceward.db.processes import ProcessNote, older_processes
from onceward.feature import Migrations
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.testing import until
from tests.queries import WAITS_FOR_TABLE
from tests.upgrade.releases import CONTRACT, EXPAND, FIRST, LATER, UNDECLARED, release

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def running(db: Database, line: Migrations, *, every_s: float = 60) -> AsyncIterator[list[NewerSchema]]:
    """A process with the code of this release."""
    failures: list[NewerSchema] = []
    note = ProcessNote(db, known([line]), service="shop", version="1", on_too_old=failures.append, every_s=every_s)
    await note.start()
    yield failures
    await note.stop()


async def test_older_code_starts_on_an_expanded_schema(db: Database, tmp_path: Path) -> None:
    old = release(tmp_path / "old", FIRST)
    async with db.acquire() as conn:
        await migrate(conn, [release(tmp_path / "new", FIRST, EXPAND)])
        assert await plan(conn, [old]) == []
        assert await migrate(conn, [old]) == []


async def test_code_with_the_expand_step_starts_on_the_contracted_schema_and_older_code_does_not(
    db: Database, tmp_path: Path
) -> None:
    async with db.acquire() as conn:
        await migrate(conn, [release(tmp_path / "third", FIRST, EXPAND, CONTRACT)])
        assert await plan(conn, [release(tmp_path / "second", FIRST, EXPAND)]) == []
        with pytest.raises(NewerSchema, match=r"0003_drop_label, which needs code with 0002; this code has 0001"):
            await plan(conn, [release(tmp_path / "first", FIRST)])


async def test_code_without_an_undeclared_migration_does_not_start(db: Database, tmp_path: Path) -> None:
    async with db.acquire() as conn:
        await migrate(conn, [release(tmp_path / "new", FIRST, UNDECLARED, LATER_AS_THIRD)])
        with pytest.raises(NewerSchema, match="0002_title, and this code has no such file"):
            await plan(conn, [release(tmp_path / "old", FIRST)])


LATER_AS_THIRD = ("0003_colour.sql", LATER[1])


async def test_a_contract_waits_until_no_process_needs_what_it_removes(db: Database, tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", FIRST), release(tmp_path / "new", FIRST, EXPAND, CONTRACT)
    async with db.acquire() as conn:
        await migrate(conn, [old])
        async with running(db, old):
            assert [str(each) for each in await migrate(conn, [new])] == ["shop/0002_title"]
            await conn.execute("insert into orders (id, label) values (1, 'old code still writes this')")
            assert [str(each) for each in await plan(conn, [new])] == ["shop/0003_drop_label"]
            async with running(db, new):
                assert await migrate(conn, [new]) == []
        assert [str(each) for each in await migrate(conn, [new])] == ["shop/0003_drop_label"]


async def test_a_contract_that_running_code_tolerates_is_applied_at_once(db: Database, tmp_path: Path) -> None:
    second = release(tmp_path / "second", FIRST, EXPAND)
    async with db.acquire() as conn:
        await migrate(conn, [second])
        async with running(db, second):
            third = release(tmp_path / "third", FIRST, EXPAND, CONTRACT)
            assert [str(each) for each in await migrate(conn, [third])] == ["shop/0003_drop_label"]


async def test_a_file_that_the_code_needs_is_not_deferred_silently(db: Database, tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", FIRST), release(tmp_path / "new", FIRST, EXPAND, CONTRACT, LATER)
    async with db.acquire() as conn:
        await migrate(conn, [old])
        async with running(db, old):
            with pytest.raises(MigrationError, match=r"0004_colour comes after shop/0003.*shop 1 on .*migration 0002"):
                await migrate(conn, [new])
        assert len(await migrate(conn, [new])) == 3


async def test_a_process_that_was_not_seen_for_a_minute_holds_nothing_up(db: Database, tmp_path: Path) -> None:
    old = release(tmp_path / "old", FIRST)
    async with db.acquire() as conn, running(db, old):
        assert len(await older_processes(conn, "shop", 2)) == 1
        await conn.execute("update onceward.processes set seen_at = seen_at - interval '61 seconds'")
        assert await older_processes(conn, "shop", 2) == []


async def test_a_process_that_starts_during_the_contract_finds_out_that_it_is_too_old(
    db: Database, tmp_path: Path
) -> None:
    old, new = release(tmp_path / "old", FIRST), release(tmp_path / "new", FIRST, EXPAND, CONTRACT)
    await db.execute("create table gate (x int)")
    slow = (CONTRACT[0], CONTRACT[1].replace("alter table", "lock table gate; alter table"))
    new = release(tmp_path / "new", slow)
    async with db.acquire() as conn, db.acquire() as holder:
        await migrate(conn, [old])
        await holder.execute("begin; lock table gate")
        contracting = asyncio.create_task(migrate(conn, [new]))
        await until(lambda: _waiting_for_gate(db))
        failures: list[NewerSchema] = []
        note = ProcessNote(db, known([old]), service="shop", version="1", on_too_old=failures.append)
        starting = asyncio.create_task(note.start())  # its note waits for the lock of the contract
        await until(lambda: _waiting_for_gate(db, table="onceward.processes"))
        await holder.execute("rollback")
        assert len(await contracting) == 2
        with pytest.raises(NewerSchema, match="needs code with migration 0002; this code has 0001"):
            await starting
        assert len(failures) == 1


async def _waiting_for_gate(db: Database, *, table: str = "gate") -> bool:
    return bool(await db.fetchval(WAITS_FOR_TABLE, table))


async def test_a_running_process_becomes_unready_and_ends_if_the_schema_is_contracted_below_it(
    database_url: str, db: Database
) -> None:
    settings = load_settings(database_url=database_url, port=0)
    process = Process(Onceward("shop"), settings, FEATURES)
    ready = asyncio.Event()
    run = asyncio.create_task(process.run({"scheduler"}, ready=ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
        assert await db.fetchval("select count(*) from onceward.processes where version = '0.1.0'") == 1
        assert {each.reason for each in await process.health.look()} == {None}
        await db.execute(
            "insert into onceward.migrations (owner, number, name, checksum, requires) values ('work', 9, 'x', 'x', 8)"
        )
        note = next(undo.__self__ for name, undo in process._undo if name == "process note")  # type: ignore[attr-defined]
        await note.note()
        assert "NewerSchema" in [each.reason for each in await process.health.look()]
        with pytest.raises(NewerSchema, match="work was contracted and needs code with migration 0008"):
            await run
    assert await db.fetchval("select count(*) from onceward.processes") == 0


async def test_a_node_starts_while_only_a_contract_is_pending(database_url: str, db: Database, tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", FIRST), release(tmp_path / "new", FIRST, EXPAND, CONTRACT)
    async with db.acquire() as conn, running(db, old):
        await migrate(conn, [*FEATURES.migrations, new])
        app = Onceward("shop", migrations=tmp_path / "new")
        process = Process(app, load_settings(database_url=database_url, auto_migrate=False), FEATURES)
        await process.start({"scheduler"})
        await process.stop()
        configured = ConfiguredDatabase(process.settings, process.features.migrations)
        await configured.open()
        assert [str(each) for each in await configured.pending_migrations()] == ["shop/0003_drop_label"]
        await configured.close()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("-- onceward: shrink\nselect 1", "`-- onceward: shrink` is not a declaration"),
        ("-- onceward: contract after 0002\nselect 1", "must name an earlier migration"),
        ("-- onceward: contract after 2\nselect 1", "is not a declaration"),
        ("-- onceward: expand\n-- onceward: contract after 0001\nselect 1", "declare either"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, sql: str, message: str) -> None:
    with pytest.raises(BrokenLine, match=message):
        read(release(tmp_path, FIRST, ("0002_x.sql", sql)))


def test_declarations_after_the_first_statement_are_comments(tmp_path: Path) -> None:
    first = read(
        release(tmp_path, ("0001_x.sql", "-- A table.\n\n-- onceward: expand\nselect 1;\n-- onceward: shrink"))
    )[0]
    assert first.declared == ["expand"]


def test_every_migration_of_ours_after_the_first_declares_its_kind() -> None:
    folders = [*ROOT.glob("onceward/*/migrations"), *ROOT.glob("apps/onceward_apps/*/migrations")]
    later = [each for folder in folders for each in read(Migrations("ours", folder)) if each.number > 1]
    assert later
    assert [str(each) for each in later if each.requires is None] == []
