"""`onceward doctor`: one clear line for what is wrong, and a way out."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator

import asyncpg
import pytest

from onceward.doctor import examination as checkup
from onceward.doctor.examination import examine_database
from onceward.doctor.finding import Finding
from onceward.runtime import FEATURES
from onceward.settings import Settings
from tests.cli.conftest import CommandLine


def execute(url: str, *statements: str) -> None:
    async def run() -> None:
        conn = await asyncpg.connect(url)
        for statement in statements:
            await conn.execute(statement)
        await conn.close()

    asyncio.run(run())


def as_user(url: str, name: str) -> str:
    return url.replace("//postgres@", f"//{name}@", 1)


def named(findings: list[Finding], check: str) -> Finding:
    [found] = [item for item in findings if item.check == check]
    return found


@pytest.fixture
def limited(server_url: str) -> Iterator[str]:
    """A login that may connect and nothing else."""
    name = f"limited_{uuid.uuid4().hex[:8]}"
    execute(server_url, f"create role {name} login")
    yield name
    execute(server_url, f"drop role {name}")


def test_nothing_set_works_on_the_embedded_server(cli: CommandLine) -> None:
    ended = cli("doctor", "--json")
    assert ended.returncode == 0, ended.stderr
    found = {item["check"]: item["status"] for item in json.loads(ended.stdout)}
    assert found["server"] == found["durability"] == found["clock"] == found["disk"] == "ok"
    assert found["migrations"] == "warn"


def test_wrong_url_says_where_to_look(cli: CommandLine) -> None:
    ended = cli("doctor", ONCEWARD_DATABASE_URL="postgresql://u:hunter2@127.0.0.1:1/x")
    assert ended.returncode == 1
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("fail")]
    assert "cannot connect" in line
    assert "correct the host and port in ONCEWARD_DATABASE_URL" in line
    assert "hunter2" not in ended.stdout + ended.stderr


def test_bad_setting_and_unknown_name_are_findings(cli: CommandLine) -> None:
    ended = cli("doctor", ONCEWARD_PORT="many", ONCEWARD_POOLMAX="3")
    assert ended.returncode == 1
    assert "ONCEWARD_PORT='many'" in ended.stdout
    assert "did you mean ONCEWARD_POOL_MAX?" in ended.stdout


async def test_missing_database_is_named(database_url: str) -> None:
    findings = await examine_database(database_url.replace("/test_", "/gone_"), Settings(), FEATURES)
    assert [item.status for item in findings] == ["fail"]
    assert "createdb" in findings[0].remedy


async def test_user_without_rights_is_shown_the_missing_rights(database_url: str, limited: str) -> None:
    findings = await examine_database(as_user(database_url, limited), Settings(), FEATURES)
    roles = named(findings, "roles")
    assert roles.status == "fail"
    assert f'to "{limited}"' in roles.remedy


async def test_old_server_is_one_line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "OLDEST_SERVER", 990000)
    findings = await examine_database(database_url, Settings(), FEATURES)
    assert [item.check for item in findings] == ["server"]
    assert findings[0].status == "fail"
    assert "15 or newer" in findings[0].remedy


async def test_app_role_that_bypasses_row_level_security_fails(database_url: str) -> None:
    conn = await asyncpg.connect(database_url)
    transaction = conn.transaction()
    await transaction.start()
    try:
        await conn.execute("alter role onceward_app bypassrls")
        finding = await checkup.check_roles(checkup.Patient(conn, conn, Settings(), FEATURES))
    finally:
        await transaction.rollback()
        await conn.close()
    assert finding.status == "fail"
    assert "nobypassrls" in finding.remedy


async def test_more_connections_than_the_server_has_fail(database_url: str) -> None:
    findings = await examine_database(database_url, Settings(connections_max=5000), FEATURES)
    assert named(findings, "connections").status == "fail"
    findings = await examine_database(database_url, Settings(connections_max=10), FEATURES)
    assert "run fewer processes" in named(findings, "connections").remedy
    assert named(await examine_database(database_url, Settings(), FEATURES), "connections").status == "ok"


async def test_commits_that_do_not_wait_for_the_disk_fail(database_url: str) -> None:
    # The tests' own server does not sync, and doctor must report that.
    finding = named(await examine_database(database_url, Settings(), FEATURES), "durability")
    assert finding.status == "fail"
    assert "fsync" in finding.finding


async def test_a_loop_that_keeps_failing_is_named_with_its_process(database_url: str) -> None:
    settings = Settings()
    assert named(await examine_database(database_url, settings, FEATURES), "loops").status == "ok"
    conn = await asyncpg.connect(database_url)
    await conn.execute(
        "insert into onceward.processes (id, service, host, pid, version, knows, failing)"
        " values (gen_random_uuid(), 'shop', 'node-3', 77, '1', '{}', '{\"feed default\": \"KeyError\"}')"
    )
    finding = named(await examine_database(database_url, settings, FEATURES), "loops")
    assert finding.status == "fail"
    assert "feed default of shop on node-3, pid 77 (KeyError)" in finding.finding
    await conn.execute("update onceward.processes set seen_at = seen_at - interval '2 minutes'")
    assert named(await examine_database(database_url, settings, FEATURES), "loops").status == "ok", "it runs no more"
    await conn.close()
