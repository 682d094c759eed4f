"""`dead-letters replay`: Ctrl-C ends it after a whole batch, and the same command does the rest."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.cli.exits import CommandFailed, Exit
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.work import dead_letters
from tests.work.test_many_dead_letters import audited, bury


def test_an_interrupted_replay_says_what_is_done_and_continues(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
    asyncio.run(with_database(database_url, lambda db: bury(db, 250)))
    command = ["dead-letters", "replay", "--task", "dead", "--limit", "1000", "--reason", "repaired"]
    act_on = dead_letters._act_on  # pyright: ignore[reportPrivateUsage]

    async def interrupted(*args: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)  # the loop notes the signal
        return await act_on(*args, **options)

    monkeypatch.setattr(dead_letters, "_act_on", interrupted)
    first = CliRunner().invoke(build(FEATURES), command)
    assert isinstance(first.exception, CommandFailed)
    assert first.exception.code == Exit.INTERRUPTED
    assert "nothing is done twice" in str(first.exception)
    assert "replay: 100 done" in first.stdout
    monkeypatch.setattr(dead_letters, "_act_on", act_on)
    second = CliRunner().invoke(build(FEATURES), command)
    assert (second.exit_code, "replay: 150 done" in second.stdout) == (0, True)
    assert asyncio.run(with_database(database_url, audited)) == 250
    third = CliRunner().invoke(build(FEATURES), [*command, "--dry-run"])
    assert "nothing to replay" in third.stdout


async def with_database(url: str, work: Any) -> Any:
    db = await Database.open(url)
    try:
        return await work(db)
    finally:
        await db.close()
