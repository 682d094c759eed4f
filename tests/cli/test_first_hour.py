"""What a new user meets in the first hour on the command line."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from onceward import Engine, Onceward, Permanent
from onceward.app import NoSuchFolder
from onceward.cli.app_loader import AppFailed, load_app
from onceward.cli.commands import build
from onceward.cli.rendering import boxed
from onceward.db import Database, MigrationError, Unavailable, migrate
from onceward.feature import Migrations
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings, load_settings
from onceward.testing import drain
from onceward.testing.databases import with_database
from onceward.web.server import CannotListen
from tests.upgrade.webhooks import add_source

app = Onceward("t")


@app.job
async def fine() -> None: ...


@app.job
async def broken() -> None:
    raise Permanent("no such customer")


@pytest.fixture
def onceward(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(build(FEATURES), list(arguments))


def test_a_box_keeps_a_long_link_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    link = "http://127.0.0.1:8400/login?token=" + "x" * 200
    boxed("Log in:", link)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["Log in:", link]
    assert lines[0] == lines[3] == "-" * 100


async def test_both_lists_count_the_attempts_of_a_dead_letter_alike(db: Database, onceward) -> None:
    engine = Engine(db, app.registry)
    await engine.enqueue(fine)
    dead = await engine.enqueue(broken)
    await drain(engine)
    await engine.enqueue(fine.schedule_in(hours=1))

    async def rows(*command: str) -> list[dict[str, object]]:
        return json.loads((await asyncio.to_thread(onceward, *command, "--json")).stdout)

    [letter] = await rows("dead-letters", "ls")
    [job] = await rows("jobs", "ls", "--state", "dead_letter")
    assert (job["id"], job["attempts"]) == (letter["id"], letter["attempts"]) == (dead.id, 1)
    assert [each["task"] for each in await rows("jobs", "ls", "--state", "pending")] == ["fine"]
    assert len(await rows("jobs", "ls")) == 3


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_a_replay_without_a_filter_names_options_that_exist(onceward, verb: str) -> None:
    failed = onceward("dead-letters", verb, "--reason", "why")
    assert failed.exit_code != 0
    help_text = onceward("dead-letters", verb, "--help").stdout
    named = [word.strip(",") for word in str(failed.exception).split() if word.startswith("--")]
    assert len(named) == 7
    assert [option for option in named if option not in help_text] == []
    assert "--reason" in str(onceward("dead-letters", verb, "7").exception)


async def test_an_unreachable_database_is_named_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable, match=f"at 127.0.0.1:{port}: ") as failure:
        await Database.open(f"postgresql://ann:hunter2@127.0.0.1:{port}/shop")
    assert "hunter2" not in str(failure.value)


def test_a_url_of_sqlalchemy_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", "postgresql+asyncpg://ann@db/shop")
    url = Settings().database_url
    assert url is not None
    assert url.get_secret_value() == "postgresql://ann@db/shop"


async def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = SecretStr("postgresql://127.0.0.1:1/nowhere")  # the database is not even tried
        settings = Settings(database_url=nowhere, port=taken.getsockname()[1], data_dir=tmp_path)
        with pytest.raises(CannotListen, match="ONCEWARD_PORT"):
            await Process(Onceward("test"), settings, FEATURES).start()


def run_in(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onceward", *command],
        cwd=folder,
        env={**os.environ, "ONCEWARD_DATABASE_WAIT_S": "0", **environment},
        capture_output=True,
        text=True,
    )


APP = 'from onceward import Onceward, Tx\n\napp = Onceward("shop"{options})\n\n\n{handler}\n'


def test_a_parameter_without_its_type_is_named_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "untyped_shop.py").write_text(
        APP.format(options="", handler="@app.job\nasync def x(tx, *, order: int) -> None: ...")
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AppFailed, match=r"untyped_shop.py:6: TypeError: x: parameter 'tx' has no type: write `tx: Tx`"):
        load_app("untyped_shop:app")


def test_a_folder_of_migrations_may_be_text_and_must_exist() -> None:
    with pytest.raises(NoSuchFolder, match="there is no folder 'nowhere', so its SQL would never be applied"):
        Onceward("shop", migrations="nowhere").features()


def test_a_connection_that_is_refused_says_what_to_do(database_url: str, tmp_path: Path) -> None:
    absent = run_in(tmp_path, "jobs", "ls", ONCEWARD_DATABASE_URL=with_database(database_url, "no_such_database"))
    assert absent.returncode == 4
    assert "create the database (`createdb`), or correct its name in ONCEWARD_DATABASE_URL" in absent.stderr
    assert absent.stderr.count("\n") == 1, absent.stderr


def test_the_name_of_an_app_that_is_not_configured_says_which_variable_names_it(tmp_path: Path) -> None:
    failed = run_in(tmp_path, "ticketing", "orders")
    assert "ONCEWARD_APP=onceward_apps.ticketing:app" in failed.stderr


async def test_a_failed_migration_names_the_line(db: Database, tmp_path: Path) -> None:
    (tmp_path / "0001_shop.sql").write_text("create table public.a (id int);\n\ncreate tabel public.b (id int);\n")
    async with db.acquire() as conn:
        with pytest.raises(MigrationError, match=r'shop/0001_shop line 3 failed: syntax error at or near "tabel"'):
            await migrate(conn, [Migrations("shop", tmp_path)])


async def test_a_test_event_without_a_handler_is_kept_and_says_so(
    database_url: str, db: Database, tmp_path: Path
) -> None:
    nobody = Onceward("shop")
    settings = load_settings(
        FEATURES.settings,
        database_url=SecretStr(database_url),
        port=0,
        data_dir=tmp_path,
        secret_key=SecretStr("k" * 40),
    )
    await add_source(db, settings, "stripe")
    process = Process(nobody, settings, FEATURES)
    await process.start({"web"})
    assert process.web is not None
    variables = {
        "ONCEWARD_DATABASE_URL": database_url,
        "ONCEWARD_PORT": process.web.url.rpartition(":")[2],
        "ONCEWARD_SECRET_KEY": "k" * 40,
        "ONCEWARD_DATA_DIR": str(tmp_path),
    }
    sent = await asyncio.to_thread(partial(run_in, tmp_path, "trigger", "stripe", "charge.succeeded", **variables))
    await process.stop()
    assert sent.returncode == 0, sent.stderr
    assert "200 in" in sent.stdout
    assert 'no handler of a running app takes it: write @app.on("stripe", "charge.succeeded")' in sent.stderr
