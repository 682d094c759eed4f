"""Every dependency has its reason in docs/dependencies.md, and nothing else stands there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"^[A-Za-z0-9-]+")


def project(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> list[str]:
    return sorted(NAME.match(each)[0] for each in requirements)  # type: ignore[index]


def test_every_dependency_has_its_reason() -> None:
    engine, extras, apps = (
        [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| `.*$", part, re.MULTILINE)]
        for part in re.split(
            r"^## (?:Extras|The apps)$", (ROOT / "docs/dependencies.md").read_text(), flags=re.MULTILINE
        )
    )
    declared = project("pyproject.toml")
    assert [row[0] for row in engine] == names(declared["dependencies"])
    assert [row[0] for row in apps] == names(project("apps/pyproject.toml")["dependencies"])
    optional = {(name, extra) for extra, needed in declared["optional-dependencies"].items() for name in names(needed)}
    assert {(name, extra) for name, extra, _ in extras} == optional
    assert all(row[-1] for row in (*engine, *extras, *apps))
