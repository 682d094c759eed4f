"""`onceward workflows` and `onceward limits`, run as a user does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from onceward import Engine, Onceward, Permanent, Tx, Workflow
from onceward.cli.commands import build
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import drain

app = Onceward("commanded")
Command = Callable[..., Result]


@app.workflow
async def greet(wf: Workflow, *, name: str) -> str:
    await wf.compensate(forget, name)
    said = await wf.step(say, name)
    await wf.wait_for("answer")
    return said


@app.job
async def generate() -> None: ...


async def say(name: str) -> str:
    if name == "nobody":
        raise Permanent("there is nobody")
    return f"hello {name}"


async def forget(tx: Tx, name: str) -> None: ...


@pytest.fixture
def command(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(build(FEATURES), list(args))


def test_workflows_are_listed_shown_signalled_cancelled_and_forked(command: Command, database_url: str) -> None:
    async def start() -> tuple[int, int]:
        db = await Database.open(database_url)
        engine = Engine(db, app.registry)
        one = await engine.start_workflow(greet.attributes(city="Bonn"), name="ann")
        two = await engine.start_workflow(greet, name="nobody")
        await drain(engine)
        await db.close()
        return one.id, two.id

    one, two = asyncio.run(start())
    assert "greet" in command("workflows", "ls").output
    listed = json.loads(command("workflows", "ls", "--attribute", "city=Bonn", "--json").output)
    assert [flow["id"] for flow in listed] == [one]
    shown = command("workflows", "show", str(two)).output
    assert "there is nobody" in shown
    assert "undo of say" in shown
    assert command("workflows", "signal", str(one), "answer", '"hi"').output.strip() == "delivered"
    assert command("workflows", "cancel", str(one), "--reason", "test").output.strip() == "compensating"
    assert "continues from step say" in command("workflows", "fork", str(two), "say").output
    refused = command("workflows", "retry", str(one))
    assert refused.exit_code != 0


def test_limits_are_listed_and_set(command: Command, database_url: str) -> None:
    async def take() -> None:
        db = await Database.open(database_url)
        engine = Engine(db, app.registry)
        async with engine.transaction() as tx:
            await tx.reserve(await tx.enqueue(generate), key="user:1", at_most=2)
        await db.close()

    asyncio.run(take())
    assert "the global limit is 7" in command("limits", "set", "7").output
    rows = json.loads(command("limits", "ls", "--json").output)
    assert [(row["key"], row["held"], row["at_most"]) for row in rows] == [("global", 1, 7), ("user:1", 1, None)]
    assert "0 slots" in command("limits", "reconcile").output
