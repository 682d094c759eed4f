"""The report of `make acceptance`: only an item whose tests all ran and passed passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.acceptance import ROOT, App, Outcomes, load, report

FOLDERS = [path.parent for path in sorted((ROOT / "tests").glob("*/acceptance.toml"))]


def outcome(item: str, test: str, outcome: str, when: str = "call") -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=test,
        location=("", 0, ""),
        keywords={},
        outcome=outcome,  # pyright: ignore[reportArgumentType]
        longrepr=None,
        when=when,  # pyright: ignore[reportArgumentType]
        user_properties=[("acceptance", item)],
    )


def test_an_item_passes_only_if_every_test_of_it_ran_and_passed() -> None:
    outcomes = Outcomes()
    for each in (
        outcome("shown", "a", "passed"),
        outcome("half", "b", "passed"),
        outcome("half", "c", "failed"),
        outcome("skipped", "d", "skipped", when="setup"),
        outcome("broken end", "e", "passed"),
        outcome("broken end", "e", "failed", when="teardown"),
    ):
        outcomes.pytest_runtest_logreport(each)
    app = App("shop", "Shop", dict.fromkeys(("shown", "half", "skipped", "broken end", "forgotten"), "text"))
    results = {item: outcomes.result(item) for item in app.items}
    assert results == {
        "shown": "pass",
        "half": "fail",
        "skipped": "fail",
        "broken end": "fail",
        "forgotten": "no test",
    }
    lines, passed = report(app, outcomes)
    assert not passed
    assert any("no test" in line and "forgotten" in line for line in lines)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_listed_item_has_a_text(folder: Path) -> None:
    app = load(folder)
    assert app.title
    assert app.items
    assert all(text.strip() for text in app.items.values())
