"""A dump of one PostgreSQL version restores into another one, as far as the programs on this machine allow it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import asyncpg
import pytest

from onceward.db.programs import ProgramFailed, program_for
from onceward.testing import TestDatabases
from onceward.testing.databases import with_database


def run(*command: str, url: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ONCEWARD_DATABASE_URL": url}
    return subprocess.run(
        [sys.executable, "-m", "onceward", *command], env=environment, cwd=cwd, capture_output=True, text=True
    )


async def one(url: str, query: str) -> object:
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(query)
    finally:
        await conn.close()


@pytest.mark.peer
@pytest.mark.parametrize("upwards", [False, True], ids=["18 to 15", "15 to 18"])
async def test_a_dump_moves_to_an_older_and_to_a_newer_server(
    databases: TestDatabases, postgres15: str, tmp_path: Path, upwards: bool
) -> None:
    name = f"moved_{uuid.uuid4().hex[:8]}"
    await one(postgres15, f"create database {name}")
    old, new = with_database(postgres15, name), await databases.create_async()
    source, target = (old, new) if upwards else (new, old)
    if upwards:
        assert run("migrate", url=old, cwd=tmp_path).returncode == 0
    await one(source, "create table public.kept as select repeat('x', n) as text from generate_series(1, 500) n")
    dumped = run("db", "dump", "backup", url=source, cwd=tmp_path)
    assert dumped.returncode == 0, dumped.stderr
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600
    restored = run("db", "restore", "backup", "--yes", url=target, cwd=tmp_path)
    assert restored.returncode == 0, restored.stderr
    assert await one(target, "select count(*) from public.kept where text <> ''") == 500
    assert await one(target, "select count(*) > 0 from onceward.migrations") is True
    databases.release(new)
    await one(postgres15, f"drop database {name} with (force)")  # other tests drop the roles that it uses


async def test_a_restore_is_refused_while_a_process_runs_and_names_it(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"not read")
    await one(
        database_url,
        "insert into onceward.processes (id, service, host, pid, version, knows, failing, started_at, seen_at)"
        " values (gen_random_uuid(), 'shop', 'web-1', 7, '0.1.0', '{}', '{}', now(), now())",
    )
    refused = run("db", "restore", "backup", "--yes", url=database_url, cwd=tmp_path)
    assert refused.returncode == 1
    assert "shop 0.1.0 on web-1, pid 7" in refused.stderr


async def test_a_file_that_pg_dump_did_not_write_changes_nothing(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"select 1;")
    refused = run("db", "restore", "backup", "--yes", url=database_url, cwd=tmp_path)
    assert refused.returncode == 4
    assert "cannot be read" in refused.stderr
    assert await one(database_url, "select count(*) > 0 from onceward.migrations") is True


async def test_a_missing_version_is_named() -> None:
    with pytest.raises(ProgramFailed, match="pg_dump of PostgreSQL 99 or newer is not installed"):
        await program_for("pg_dump", 99)
