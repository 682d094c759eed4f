"""A type checker accepts what `accepted.py` does and rejects each marked line of `rejected.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def reported() -> dict[str, dict[int, str]]:
    """Return the errors of pyright by file name and line."""
    command = [sys.executable, "-m", "pyright", "--project", str(HERE), "--pythonpath", sys.executable, "--outputjson"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    answer: dict[str, Any] = json.loads(ended.stdout)
    errors: dict[str, dict[int, str]] = {"accepted.py": {}, "rejected.py": {}}
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            errors[Path(each["file"]).name][each["range"]["start"]["line"] + 1] = each["message"]
    assert answer["summary"]["filesAnalyzed"] == 2
    return errors


def test_the_examples_type_check(reported: dict[str, dict[int, str]]) -> None:
    assert reported["accepted.py"] == {}


def test_each_wrong_use_is_an_error_of_its_own(reported: dict[str, dict[int, str]]) -> None:
    lines = (HERE / "rejected.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if line.endswith("# rejected")}
    assert marked
    missed = [lines[number - 1].strip() for number in sorted(marked - set(reported["rejected.py"]))]
    unexpected = {number: text for number, text in reported["rejected.py"].items() if number not in marked}
    assert (missed, unexpected) == ([], {})


def test_the_examples_can_be_imported() -> None:
    """The decorators accept at run time what the type checker accepts."""
    from tests.typing import accepted

    assert "pack" in accepted.app.registry.tasks


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "onceward" / "py.typed").is_file()
