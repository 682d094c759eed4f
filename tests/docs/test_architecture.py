"""ARCHITECTURE.md and the tour name files and functions: each of them exists, and the tour leaves out none of the paths."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "architecture-tour.md").read_text(encoding="utf-8")
BOTH = TEXT + TOUR
NAMED = sorted(set(re.findall(r"\b((?:[a-z_]+/)*[a-z_]+\.py):(\w+)", BOTH)))
STATEMENTS = sorted(set(re.findall(r"\b((?:[a-z_]+/)*(?:sql|functions)/(?:[a-z_]+/)?[a-z_]+\.sql)\b", BOTH)))
PATHS = ("webhook", "job", "message", "live query", "page of the dashboard")


def test_all_five_paths_are_drawn() -> None:
    for path in PATHS:
        assert f"**A {path}**" in TEXT
    assert len(NAMED) > 35


def test_the_tour_follows_the_paths_of_the_architecture() -> None:
    paths = TEXT.partition("## Five paths, step by step")[2].partition("## Tables")[0]
    for path in re.split(r"^\*\*A ", paths, flags=re.MULTILINE)[1:]:
        named = set(re.findall(r"^((?:[a-z_]+/)*[a-z_]+\.py:\w+)", path, re.MULTILINE))
        assert len(named & set(re.findall(r"[\w/]+\.py:\w+", TOUR))) >= 1, path.partition("**")[0]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_function_exists(file: str, name: str) -> None:
    path = ROOT / "onceward" / file
    assert path.exists(), f"ARCHITECTURE.md names {file}, which is gone"
    defined = {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in defined, f"ARCHITECTURE.md names {name} of {file}, which is gone"


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_named_statement_exists(statement: str) -> None:
    found = list((ROOT / "onceward").glob(statement)) or list((ROOT / "onceward").glob(f"*/{statement}"))
    assert found, f"ARCHITECTURE.md names {statement}, which is gone"


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    written = sorted(path.name for path in folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index) == written
    assert [int(name[:4]) for name in written] == list(range(1, len(written) + 1))


CHANGES = re.findall(
    r"^\| ([^|`]+) \| `([\w/]+/)` \| ((?:`[^`]+` ?)+)\|$",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""What is changed, in which folder, and the files there."""


def test_each_of_the_twelve_changes_has_one_folder() -> None:
    assert len(CHANGES) == 12
    for change, folder, files in CHANGES:
        named = re.findall(r"`([^`]+)`", files)
        gone = [file for file in named if not (ROOT / folder / file).is_file()]
        assert not gone, f"CONTRIBUTING.md, {change}: {folder} has no {gone}"


def test_the_frame_keeps_few_settings() -> None:
    """A setting belongs to its feature. The frame has what a process needs before it knows any."""
    frame = (ROOT / "onceward" / "settings" / "fields.py").read_text(encoding="utf-8")
    assert len(re.findall(r"^    [a-z_]+: .*Field\(", frame, re.MULTILINE)) <= 26
