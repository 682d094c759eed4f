"""A process that stands still at any gate while another one finishes its work changes nothing when it goes on."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import onceward
from onceward.db import Database
from onceward.testing import StallScenario, stall_test
from onceward.testing.stalled import load_target
from onceward.work import gate
from tests.stalls.tables import TABLES

SCENARIOS = [
    "jobs:job",
    "jobs:batch",
    "jobs:group",
    "jobs:run",
    "webhooks:event",
    "webhooks:inline",
    "webhooks:inline_large",
    "webhooks:inline_together",
    "webhooks:inline_refused",
    "items:item",
    "flows:step",
    "flows:compensation",
    "flows:child_and_signal",
    "flows:cancelled_child",
    "flows:waiting_child",
    "flows:new_history",
    "sending:message",
    "sending:delivery",
]


MOST_DANGEROUS = {
    "jobs:job": ["before-commit", "after-run", "fenced-before-commit"],
    "jobs:group": ["before-join", "after-join", "before-commit"],
    "webhooks:inline_together": ["inline-joined", "inline-before-commit"],
    "items:item": ["item-before-commit"],
    "flows:waiting_child": ["workflow-after-commit", "workflow-before-child"],
    "sending:message": ["after-send"],
}
"""What is stalled in every run of the tests; the rest is `make stall`."""


@pytest.mark.parametrize("name", MOST_DANGEROUS)
async def test_a_stall_at_a_dangerous_gate_gives_the_undisturbed_result(
    name: str, db: Database, database_url: str
) -> None:
    await db.execute(TABLES)
    gates = MOST_DANGEROUS[name]
    assert set(await stall_test(f"tests.stalls.{name}", database_url, only=gates)) == set(gates)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_stall_at_any_gate_gives_the_undisturbed_result(name: str, db: Database, database_url: str) -> None:
    await db.execute(TABLES)
    assert await stall_test(f"tests.stalls.{name}", database_url)


async def test_the_twin_whose_effects_are_not_in_the_transaction_is_found_out(db: Database, database_url: str) -> None:
    """The proof that the test can fail: an effect that is not written through `tx` happens twice."""
    await db.execute(TABLES)
    with pytest.raises(AssertionError, match="a process frozen at gate 1 "):
        await stall_test("tests.stalls.careless:scenario", database_url)


def gates_in_the_code() -> set[tuple[str, str]]:
    """Module and name of every gate in the package."""
    found: set[tuple[str, str]] = set()
    root = Path(onceward.__file__).parent
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "gate":
                [argument] = node.args
                assert isinstance(argument, ast.Constant), f"{module}: a gate's name must be a string, to be found"
                found.add((module, str(argument.value)))
    return found


async def test_every_gate_of_the_code_is_passed_by_a_scenario(
    db: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new gate needs a scenario that passes it, so that the whole matrix stalls a process there."""
    await db.execute(TABLES)
    passed: set[tuple[str, str]] = set()

    def note(name: str) -> None:
        passed.add((sys._getframe(2).f_globals["__name__"], name))

    monkeypatch.setattr(gate, "hook", note)
    for name in SCENARIOS:
        scenario: StallScenario[Any] = load_target(f"tests.stalls.{name}")
        pool = await Database.open(database_url)
        async with scenario.open(pool) as host:
            await scenario.arrange(host)
            await scenario.run(host)
            await scenario.reset(host)
        await pool.close()
    assert gates_in_the_code() - passed == set()
