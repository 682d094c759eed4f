"""What a new user meets in the first hour on the command line."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from onceward import Engine, Onceward, Permanent
from onceward.cli.commands import build
from onceward.cli.rendering import boxed
from onceward.db import Database, Unavailable
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import drain
from onceward.web.server import CannotListen

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
