"""The statements of the engine's core are files, one statement each, that state their promise in the first line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import onceward
from onceward.db.statements import split
from onceward.work import statements

ROOT = Path(onceward.__file__).parent
FILES = sorted(path for package in ("db", "work") for path in (ROOT / package / "sql").glob("*.sql"))
IN_PYTHON = re.compile(r'^[A-Z_]+ = f?"""\s*(select|with|insert|update|delete|create)\b', re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_begins_with_its_promise(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"-- [A-Z].*\.\n", text) or re.match(r"-- [A-Z].*\n-- ", text)
    assert len(split(text)) == (2 if path.stem == "create_migrations" else 1)


def test_every_file_of_work_is_used() -> None:
    loaded = list(vars(statements).values())
    assert [path.stem for path in FILES if path.parent.parent.name == "work" and path.read_text() not in loaded] == []


def test_modules_of_work_and_db_hold_no_long_statement() -> None:
    modules = [path for package in ("db", "work") for path in (ROOT / package).glob("*.py")]
    assert [path.name for path in modules if IN_PYTHON.search(path.read_text(encoding="utf-8"))] == []
