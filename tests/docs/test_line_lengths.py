"""Prose has lines of at most 140 characters, so that a change of a sentence shows as a change of that sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 140
CODE = re.compile(r"`[^`]*`")
"""Code in a sentence stays on one line, so that it can be copied."""
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path.name not in ("CHANGELOG.md", "cli.md")  # lines that are merged one by one; help texts of commands
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_of_prose_are_short(page: Path) -> None:
    is_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and not line.lstrip().startswith(("|", "```", "!", "<")):
            assert len(CODE.sub("", line)) <= MOST, f"{page.relative_to(ROOT)}:{number} has {len(line)} characters"


LONGEST_SQL = 140
"""Of Python, ruff refuses lines of more than 120 characters."""


def test_lines_of_sql_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("onceward", "apps")
        for path in sorted((ROOT / folder).rglob("*.sql"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_SQL
    ]
    assert not long, f"more than {LONGEST_SQL} characters: {long[:20]}"
