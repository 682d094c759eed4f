"""Prose under test: the tables are the code's, and what the README shows runs."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

import pytest

import onceward

ROOT = Path(__file__).parents[2]
PAGES = runpy.run_path(str(ROOT / "docs" / "tables.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_tables_is_what_the_code_has(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/{name} is not what the code says: run `make docs`"


def test_version_is_the_same_in_both_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == onceward.__version__


def test_changelog_begins_with_what_is_unreleased() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## Unreleased"


def test_every_link_to_a_file_leads_to_one() -> None:
    import re

    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
