"""A command that is killed between its commits is finished by the next start, or the start says what to do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.db import Database
from onceward.doctor.examination import Patient, check_commands
from onceward.process.unfinished import CommandUnfinished, refuse_during_restore, refuse_unfinished
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import secrets
from onceward.trust.journal import unfinished_commands
from onceward.work import recovery
from tests.child import ROOT

OLD, NEW = "o" * 43, "n" * 43
NOTES = "select count(*) from onceward.unfinished_commands"


class Killed(BaseException):
    """Ends a command as `kill -9` does: what is not committed is rolled back, and nothing else happens."""


def killer(after: int, original: Any) -> Any:
    """Return a function that ends the process instead of its call number `after`."""
    calls = 0

    def call(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Killed
        return original(*args, **options)

    return call


async def finding(db: Database) -> str:
    async with db.acquire() as conn:
        return (await check_commands(Patient(conn, conn, Settings(), FEATURES))).status


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_rotation_that_is_killed_is_named_until_it_has_finished(db: Database, monkeypatch, after: int) -> None:
    old = secrets.SecretBox([OLD])
    async with db.transaction(role="engine") as tx:
        for name in ("a", "b", "c"):
            await secrets.put_secret(tx, old, name, name)
    box = secrets.SecretBox([NEW, OLD])
    with monkeypatch.context() as patched:
        patched.setattr(secrets.SecretBox, "seal", killer(after, secrets.SecretBox.seal))
        with pytest.raises(Killed):
            await secrets.rotate(db, box, FEATURES.sealed, batch=1)
    await refuse_unfinished(db)  # a node may run: it has both keys
    [note] = await unfinished_commands(db)
    assert await finding(db) == "warn"
    assert "before you remove a key" in str(note)
    assert await secrets.rotate(db, box, FEATURES.sealed, batch=1) == 3 - after
    assert await db.fetchval(NOTES) == 0
    async with db.transaction(role="engine") as tx:
        assert await secrets.get_secret(tx, secrets.SecretBox([NEW]), "c") == "c"


async def test_no_node_starts_after_an_after_restore_that_was_killed(db: Database, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(recovery, "record", killer(0, recovery.record))
        with pytest.raises(Killed):
            await recovery.recover(db, actor="test", observe_s=0, note_s=0)
    assert await finding(db) == "fail"
    with pytest.raises(CommandUnfinished, match=r"`onceward after-restore`.*run it again before you start a node"):
        await refuse_unfinished(db)
    await recovery.recover(db, actor="test", observe_s=0, note_s=0)
    await refuse_unfinished(db)
    assert await finding(db) == "ok"


async def test_a_restore_that_is_killed_has_changed_nothing_and_no_node_starts_while_it_runs(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    await db.execute("create table kept as select 1 as n")
    environment = {"ONCEWARD_DATABASE_URL": database_url, "ONCEWARD_DATA_DIR": str(tmp_path)}

    async def command(*args: str) -> asyncio.subprocess.Process:
        program = (sys.executable, "-m", "onceward", "db", *args)
        return await asyncio.create_subprocess_exec(*program, env=environment, cwd=ROOT)

    assert await (await command("dump", str(tmp_path / "dump"))).wait() == 0
    await db.execute("update kept set n = 2")
    async with db.transaction(role="engine") as tx:
        await tx.execute("lock table kept in access share mode")  # the restore waits for this table
        restore = await command("restore", "--yes", str(tmp_path / "dump"))
        sessions = "select count(*) from pg_stat_activity where application_name = 'onceward-restore' and datname = current_database()"
        waiting = sessions + " and wait_event_type = 'Lock'"

        async def waits() -> bool:
            return await db.fetchval(waiting) > 0

        await until(waits, timeout_s=30)
        restore.kill()
        await restore.wait()
        with pytest.raises(CommandUnfinished, match="pg_terminate_backend"):
            await refuse_during_restore(db)
        await db.fetchval(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'onceward-restore'"
        )

        async def ended() -> bool:
            return await db.fetchval(sessions) == 0

        await until(ended, timeout_s=30)
    await refuse_during_restore(db)
    assert await db.fetchval("select n from kept") == 2
    assert await (await command("restore", "--yes", str(tmp_path / "dump"))).wait() == 0
    assert await db.fetchval("select n from kept") == 1
