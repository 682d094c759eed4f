"""`onceward rehearse`: a tree for one piece of work, a summary with differences for many, and an exit code for CI."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from onceward.cli.commands import build
from onceward.cli.exits import CommandFailed
from onceward.db import Database
from onceward.rehearsal import RehearsalError
from onceward.runtime import FEATURES
from onceward.testing import drain
from tests.dumps import dump
from tests.rehearsal import kiosk

Run = Callable[..., typer.testing.Result]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))

    def invoke(*arguments: str, app: str = "app") -> typer.testing.Result:
        command = ["rehearse", *arguments, "--app", f"tests.rehearsal.kiosk_app:{app}"]
        return typer.testing.CliRunner().invoke(build(FEATURES), command)

    return invoke


def on_database(url: str, work: Callable[[Database], Any]) -> Any:
    async def opened() -> Any:
        db = await Database.open(url)
        try:
            return await work(db)
        finally:
            await db.close()

    return asyncio.run(opened())


async def three_visits(db: Database) -> list[int]:
    """Two visits that were handled, and one that waits."""
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    ids: list[int] = []
    for number in ("V-1", "V-2", "V-3"):
        if number == "V-3":
            await drain(engine)
        ids.append(await kiosk.arrive(db, organization, {"number": number}, event_id=f"evt_{number}", type=kiosk.VISIT))
    return ids


def test_a_tree_shows_what_one_event_would_cause(run: Run, database_url: str, gave_way: list[int]) -> None:
    ids = on_database(database_url, three_visits)
    before = on_database(database_url, dump)
    shown = run("evt_V-3")
    assert shown.exit_code == 0, shown.output
    assert gave_way == [10]
    assert f"event {ids[2]} sql/visit.noted [would cause 4 effects]" in shown.stdout
    for line in (
        "message kiosk-receipt by email to guest:1, key visit:V-3",
        "Thank you for order V-3.",
        "journal posted visit:V-3",
        "cash -> sales 500 EUR",
        "job pack(number=V-3), unique visit:V-3",
        "1 rehearsed, nothing committed",
    ):
        assert line in shown.stdout
    assert on_database(database_url, dump) == before
    document = json.loads(run(str(ids[2]), "--json").stdout)
    assert document["work"][0]["effects"]["journals"][0]["entries"][0]["amount"] == 500
    assert document["handlers"][0]["counts"] == {"new": 1}
    dead = "update onceward.work set dead_reason = 'permanent', dead_at = now() where id = $1"
    on_database(database_url, lambda db: db.execute(dead, ids[2]))
    letters = run("--dead-letters", "--type", kiosk.VISIT)
    assert (letters.exit_code, "1 rehearsed" in letters.stdout) == (0, True), letters.output
    assert "nothing to rehearse" in run("--dead-letters", "--type", "refund").stdout


def test_unchanged_code_has_no_difference_and_every_mistake_is_named(
    run: Run, database_url: str, tmp_path: Path
) -> None:
    ids = on_database(database_url, three_visits)
    same = run("--since", "1h", "--type", kiosk.VISIT)
    assert same.exit_code == 0, same.output
    assert "sql/visit.noted: 2 same, 1 new" in same.stdout
    report = tmp_path / "report.md"
    for app, expected in {
        "without_mail": f"2 x message kiosk-receipt by email: missing (for example {ids[0]}",
        "wrong_amount": "2 x KeyConflict at kiosk.py:",
        "one_more_row": f"2 x audit visit.noted: one more (for example {ids[0]}",
        "failing": "3 x KeyError at kiosk.py:",
        "without_handler": "2 x message kiosk-receipt by email: missing",
    }.items():
        found = run("--since", "1h", "--type", kiosk.VISIT, "--markdown", str(report), app=app)
        assert found.exit_code == 1, (app, found.output)
        assert expected in found.stdout, (app, found.stdout)
        assert "differences or failures" in report.read_text()


def test_two_versions_of_the_code_are_compared(run: Run, database_url: str) -> None:
    ids = on_database(database_url, three_visits)
    python = ("--against", sys.executable, "--against-app")
    same = run("--since", "1h", *python, "tests.rehearsal.kiosk_app:app")
    assert (same.exit_code, "sql/visit.noted: 3 same" in same.stdout) == (0, True), same.output
    differs = run(str(ids[2]), *python, "tests.rehearsal.kiosk_app:app", app="wrong_amount")
    assert differs.exit_code == 1, differs.output
    what = f"1 x journal posted: entries[].amount differs (for example {ids[2]}: 500 -> 501)"
    assert what in differs.stdout, differs.stdout
    ended = run(str(ids[2]), *python, "tests.rehearsal.kiosk_app:missing")
    assert isinstance(ended.exception, RehearsalError)


def test_the_command_needs_to_know_what_to_rehearse(run: Run, database_url: str) -> None:
    on_database(database_url, three_visits)
    nothing, unknown = run(), run("evt_unknown")
    assert isinstance(nothing.exception, CommandFailed)
    assert "--dead-letters or --since 24h" in str(nothing.exception)
    assert isinstance(unknown.exception, CommandFailed)
    assert "evt_unknown" in str(unknown.exception)
