"""The other commands, their answers and their exit codes."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.cli.app_loader import AppFailed, NoSuchApp, load_app
from onceward.settings import SettingsError
from onceward.settings.database_url import libpq_variables
from tests.cli.conftest import CommandLine
from tests.queries import fetch_value


def test_help_names_every_command_and_an_unknown_one_is_a_usage_error(cli: CommandLine) -> None:
    text = cli("--help").stdout
    for name in ("up", "serve", "worker", "scheduler", "migrate", "doctor", "db", "settings", "version"):
        assert f" {name} " in text
    assert cli("dcotor").returncode == 2
    assert cli("--version").stdout == cli("version").stdout


def test_bad_setting_ends_with_3_and_unreachable_database_with_4(cli: CommandLine) -> None:
    wrong = cli("serve", ONCEWARD_PORT="many")
    assert (wrong.returncode, "ONCEWARD_PORT='many'" in wrong.stderr) == (3, True)
    unreachable = cli("migrate", ONCEWARD_DATABASE_URL="postgresql://u:hunter2@127.0.0.1:1/x")
    assert (unreachable.returncode, "cannot connect" in unreachable.stderr) == (4, True)
    assert "hunter2" not in unreachable.stderr
    assert "Traceback" not in unreachable.stderr + wrong.stderr


def test_schema_of_a_newer_version_ends_with_5(cli: CommandLine, database_url: str) -> None:
    fetch_value(
        database_url,
        "insert into onceward.migrations (owner, number, name, checksum) values ('work', 9999, 'later', 'x') returning 1",
    )
    ended = cli("serve", ONCEWARD_DATABASE_URL=database_url, ONCEWARD_PORT="0")
    assert ended.returncode == 5
    assert "newer version" in ended.stderr


def test_pending_migrations_stop_the_start_when_they_must_be_applied_by_hand(cli: CommandLine, server_url: str) -> None:
    name = f"empty_{uuid.uuid4().hex[:8]}"
    fetch_value(server_url, f"create database {name}")
    url = server_url.replace("/onceward?", f"/{name}?")
    try:
        ended = cli("worker", ONCEWARD_DATABASE_URL=url, ONCEWARD_AUTO_MIGRATE="false")
        assert ended.returncode == 5
        assert "onceward migrate" in ended.stderr
        planned = json.loads(cli("migrate", "--plan", "--json", ONCEWARD_DATABASE_URL=url).stdout)
        applied = json.loads(cli("migrate", "--json", ONCEWARD_DATABASE_URL=url).stdout)
        assert [row["name"] for row in planned] == [row["name"] for row in applied] != []
        assert json.loads(cli("migrate", "--json", ONCEWARD_DATABASE_URL=url).stdout) == []
    finally:
        fetch_value(server_url, f"drop database {name} with (force)")


def test_dump_restores_into_an_empty_database(cli: CommandLine, server_url: str, database_url: str) -> None:
    fetch_value(database_url, "create table public.kept as select 7 as n")
    assert cli("migrate", ONCEWARD_DATABASE_URL=database_url).returncode == 0, "the bundled apps' tables as well"
    dumped = cli("db", "dump", "backup.dump", ONCEWARD_DATABASE_URL=database_url)
    assert dumped.returncode == 0, dumped.stderr
    assert cli("db", "dump", "backup.dump", ONCEWARD_DATABASE_URL=database_url).returncode == 1, "not overwritten"
    name = f"restored_{uuid.uuid4().hex[:8]}"
    fetch_value(server_url, f"create database {name}")
    url = server_url.replace("/onceward?", f"/{name}?")
    try:
        restored = cli("db", "restore", "backup.dump", stdin="y\n", ONCEWARD_DATABASE_URL=url)
        assert restored.returncode == 0, restored.stderr
        assert fetch_value(url, "select n from public.kept") == 7
        assert json.loads(cli("migrate", "--plan", "--json", ONCEWARD_DATABASE_URL=url).stdout) == []
        fetch_value(url, "delete from public.kept returning 1")
        assert cli("db", "restore", "backup.dump", "--yes", ONCEWARD_DATABASE_URL=url).returncode == 0
        assert fetch_value(url, "select n from public.kept") == 7
    finally:
        fetch_value(server_url, f"drop database {name} with (force)")


def test_password_travels_in_the_environment_not_in_the_arguments() -> None:
    assert libpq_variables("postgresql://me:p%40ss@db.example.com:6432/shop?sslmode=require") == {
        "PGHOST": "db.example.com",
        "PGPORT": "6432",
        "PGUSER": "me",
        "PGPASSWORD": "p@ss",
        "PGDATABASE": "shop",
        "PGSSLMODE": "require",
    }
    assert libpq_variables("postgresql://me@/shop?host=/run/pg&port=5432")["PGHOST"] == "/run/pg"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("myshop", "not of the form pkg.module:app"),
        ("no.such.module:app", "run the command in the project's directory"),
        ("onceward_apps.all:application", "it has onceward_apps.all:app"),
        ("json:dumps", "it has no Onceward app"),
    ],
)
def test_path_without_an_app_is_an_error_that_says_what_to_do(path: str, said: str) -> None:
    with pytest.raises(NoSuchApp, match=said.replace("(", r"\(")):
        load_app(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from onceward import Onceward\napp = Onceward('x')\napp.on('stripe', 'a')(print)",
            "broken.py:3: TypeError: stripe/a: ",
        ),
        ("from onceward import Onceward\n\napp = Onceward(", "broken.py:3: SyntaxError: "),
    ],
)
def test_an_error_in_the_app_is_one_line_with_the_place_in_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(AppFailed) as failed:
        load_app("broken:app")
    assert str(failed.value).startswith(said)


def test_a_folder_of_migrations_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SettingsError, match="app 'x': migrations: there is no folder 'nope'"):
        Onceward("x", migrations=Path("nope")).features()


def test_settings_and_version_speak_json(cli: CommandLine) -> None:
    rows = {row["name"]: row for row in json.loads(cli("settings", "--json", ONCEWARD_JWT_SECRET="hunter2").stdout)}
    assert rows["ONCEWARD_PORT"]["value"] == "8400"
    assert "hunter2" not in json.dumps(rows)
    assert set(json.loads(cli("version", "--json").stdout)) == {"onceward", "python"}
