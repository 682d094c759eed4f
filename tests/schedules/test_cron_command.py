"""`onceward cron`: exit codes and lines that a machine can read."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES

APP = """
from onceward import Onceward, Run

app = Onceward("sample")

async def do(row: int) -> None:
    if row == 2:
        raise ValueError("two")

@app.cron("0 6 * * *")
async def daily(run: Run) -> None:
    await run.each([1, 2, 3], do)

@app.cron("0 9 * * 1")
async def breaks(run: Run) -> None:
    raise RuntimeError("no")
"""


@pytest.fixture
def cron(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = f"sample_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)

    def call(command: str, *arguments: str):
        return CliRunner().invoke(build(FEATURES), ["cron", command, *arguments, "--app", f"{name}:app"])

    return call


def test_a_finished_run_exits_with_0_and_prints_what_it_did(cron) -> None:
    result = cron("run", "daily")
    assert result.exit_code == 0, result.output
    line = json.loads(result.stdout.strip().splitlines()[-1])
    assert (line["event"], line["status"], line["processed"], line["failed"]) == ("run_finished", "success", 3, 1)
    assert cron("run", "daily", "--strict").exit_code == 1
    shown = json.loads(cron("show", "daily", "--json").stdout)
    assert [error["key"] for error in shown[0]["errors"]] == ["2"]


def test_a_broken_run_exits_with_1_and_names_the_error(cron) -> None:
    result = cron("run", "breaks")
    assert result.exit_code == 1
    assert json.loads(result.stdout.strip().splitlines()[-1])["error"] == "RuntimeError"


def test_schedules_can_be_listed_paused_and_resumed(cron) -> None:
    cron("run", "daily")
    assert cron("pause", "daily").exit_code == 0
    rows = {row["name"]: row for row in json.loads(cron("ls", "--json").stdout)}
    assert rows["daily"]["paused_by"] == "operator:cli"
    assert rows["daily"]["last_status"] == "success"
    assert cron("resume", "daily").exit_code == 0
    result = cron("backfill", "breaks", "--since", "2026-05-01", "--until", "2026-05-31")
    assert "4 runs" in result.stdout, result.output


def test_an_unknown_name_is_answered_with_those_there_are(cron) -> None:
    result = cron("run", "dayly")
    assert result.exit_code != 0
    assert "breaks, daily" in str(result.exception)
