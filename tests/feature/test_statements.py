"""SQL statements of the engine: in files, each with its promise in the first line, each used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onceward

ROOT = Path(onceward.__file__).parent
PACKAGES = (
    "capacity",
    "db",
    "inbox",
    "ledger",
    "limits",
    "live",
    "messages",
    "outbox",
    "schedules",
    "trust",
    "work",
    "workflows",
)
CALLED = re.compile(r"""read_statement\(\s*"(\w+)",\s*"(\w+)"\s*\)""")
CONSTANT = re.compile(r'^(\w+) = """(.*?)"""', re.MULTILINE | re.DOTALL)
STATEMENT = re.compile(r"(?:\s*--[^\n]*\n)*\s*(?:select|insert|update|delete|with|merge)\b", re.IGNORECASE)
SEVERAL = "create_migrations"
"""The one file with several statements: they create the tables from which the migrator reads."""
COMPOSED = {("inbox/reading.py", "SHOW"), ("outbox/reading.py", "DELIVERY")}
"""Statements to which Python adds a condition. They stay beside the code that does it."""


def files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package / "sql").glob("*.sql"))]


def test_each_file_states_its_promise_first_and_holds_one_statement() -> None:
    assert len(files()) > 150
    for path in files():
        if path.stem == SEVERAL:
            continue
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        assert re.match(r"-- [A-Z].*\w", first), f"{path}: the first line must be a comment that states the promise"
        code = re.sub(r"'[^']*'", "''", "\n".join(line.split("--")[0] for line in rest))
        assert STATEMENT.match(code), f"{path}: no statement after the comment"
        assert ";" not in code.rstrip().rstrip(";"), f"{path}: more than one statement"


def test_each_file_is_read_and_each_name_exists() -> None:
    read = {
        call
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for call in CALLED.findall(path.read_text())
    }
    assert read == {(path.parent.parent.name, path.stem) for path in files()}


def statements_in_python() -> Iterator[tuple[str, str]]:
    """Yield the constants that are a plain SQL statement of more than two lines."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, value in CONSTANT.findall(path.read_text(encoding="utf-8")):
                if STATEMENT.match(value) and len(value.strip().splitlines()) > 2:
                    yield path.relative_to(ROOT).as_posix(), name


def test_long_statements_are_not_python_strings() -> None:
    assert set(statements_in_python()) == COMPOSED
