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


LONG_LINES = {".sql": (140, 0), ".py": (120, 400)}
"""The most characters of a line of code, and how many lines may still be longer. Lower the number when you shorten lines."""


@pytest.mark.parametrize("suffix", LONG_LINES)
def test_no_more_lines_of_code_are_long(suffix: str) -> None:
    most, allowed = LONG_LINES[suffix]
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("onceward", "apps")
        for path in sorted((ROOT / folder).rglob(f"*{suffix}"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > most
    ]
    assert len(long) <= allowed, f"shorten the lines that you wrote: {len(long)} have more than {most} characters"
