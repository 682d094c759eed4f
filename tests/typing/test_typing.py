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


Errors = dict[str, dict[int, str]]


def pyright() -> Errors:
    command = [sys.executable, "-m", "pyright", "--project", str(HERE), "--pythonpath", sys.executable, "--outputjson"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    answer: dict[str, Any] = json.loads(ended.stdout)
    errors: Errors = {"accepted.py": {}, "rejected.py": {}}
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            errors[Path(each["file"]).name][each["range"]["start"]["line"] + 1] = each["message"]
    assert answer["summary"]["filesAnalyzed"] == 2
    return errors


def mypy() -> Errors:
    names = ["accepted.py", "rejected.py"]
    options = ["--follow-imports=silent", "--output=json", f"--cache-dir={Path(sys.prefix) / 'mypy'}"]
    command = [sys.executable, "-m", "mypy", *options, *names]
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=250)
    errors: Errors = {name: {} for name in names}
    for each in map(json.loads, ended.stdout.splitlines()):
        if each["severity"] == "error":
            errors[each["file"]][each["line"]] = each["message"]
    return errors


@pytest.fixture(scope="module", params=[pyright, mypy], ids=["pyright", "mypy"])
def reported(request: pytest.FixtureRequest) -> Errors:
    """Return the errors of a type checker by file name and line."""
    return request.param()


def test_the_examples_type_check(reported: Errors) -> None:
    assert reported["accepted.py"] == {}


def test_each_wrong_use_is_an_error_of_its_own(reported: Errors) -> None:
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
