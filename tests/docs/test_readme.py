"""The README's example, as it stands there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from onceward.cli.app_loader import load_app
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.work.settings import WorkSettings

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(file: str) -> str:
    found = re.search(rf"`{re.escape(file)}`:\n\n```\w+\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no {file}"
    return found[1]


async def test_the_example_does_what_it_says(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("shop.py", "migrations/0001_orders.sql"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(block(file))
    assert len(block("shop.py").splitlines()) <= 20
    command = next(line for line in README.splitlines() if line.startswith("onceward db psql"))
    enqueue = shlex.split(command)[-1]

    monkeypatch.chdir(tmp_path)
    try:
        runtime = Process(
            load_app("shop:app"),
            Settings(database_url=SecretStr(database_url)).using(WorkSettings(poll_interval_ms=50)),
            FEATURES,
        )
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("shop", None)
    await runtime.start({"worker"})
    try:
        assert runtime.engine is not None
        order = await runtime.engine.wait(await runtime.database.fetchval(enqueue))
        assert (order.outcome, order.result) == ("success", {"order": 1})
        packing = await runtime.database.fetchval("select id from onceward.jobs where task = 'pack'")
        assert (await runtime.engine.wait(packing)).outcome == "success"
        rows = await runtime.database.fetch("select id, amount, packed from orders")
        assert [tuple(row) for row in rows] == [(1, 4200, True)]
    finally:
        await runtime.stop()
