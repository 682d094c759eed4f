"""The tutorial, followed literally in a fresh folder: each file is written, each command is run, in order."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.cli.app_loader import load_app
from onceward.cli.new import create_project
from tests.child import ROOT
from tests.docs.tutorial_reader import TutorialReader
from tests.docs.tutorial_steps import RunCommands, UseBrowser, WriteFile, tutorial_steps


def test_every_state_of_the_tutorial_app_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "shop"
    create_project(project, name="shop", package="shop")
    monkeypatch.chdir(project)
    states: list[Onceward] = []
    for step in tutorial_steps():
        match step:
            case WriteFile():
                step.apply(project)
                compile_python(project)
            case RunCommands():
                states.append(imported(monkeypatch))
            case UseBrowser():
                assert step.action in ("live page", "replay")
    last = states[-1]
    assert {"pack", "ship"} <= {task.name for task in last.registry}
    assert {"late-orders", "thank-customers"} <= set(last.schedules)
    assert set(last.live.queries) == {"totals"}
    assert [path.name for path in sorted((project / "shop" / "migrations").iterdir())][-1] == "0004_watch.sql"


def compile_python(project: Path) -> None:
    for path in project.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")


def imported(monkeypatch: pytest.MonkeyPatch) -> Onceward:
    """Import the app of the current directory, and forget its modules again."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(sys, "dont_write_bytecode", True)
        try:
            return load_app("shop.app:app")
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
                del sys.modules[name]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed: apt install chromium")
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    TutorialReader(tmp_path, programs=Path(sys.executable).parent, python_path=ROOT).follow()
