"""The public names: what applications import is documented, and what is not documented says that it is internal."""

from __future__ import annotations

import ast
import importlib
import runpy
from collections.abc import Iterator
from pathlib import Path

import onceward

ROOT = Path(__file__).parents[2]
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
PUBLIC: dict[str, set[str]] = {
    module: set(TABLES["public_names"](module)) for group in TABLES["PUBLIC"].values() for module in group
}
PROMISE = TABLES["promise"]
MOST = 408
"""The interface stays small enough to learn: raise this only for a name that applications need."""
OPERATING = {"onceward.trust.erase", "onceward.trust.export"}
"""Internal modules that the apps of this repository still use: they erase and export a person."""


def imported() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the module and the name of each import from Onceward in an app or an example."""
    for folder in ("apps", "examples", "onceward/cli/project_template", "onceward/cli/shop_template"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "onceward":
                    for each in node.names:
                        yield path.relative_to(ROOT).as_posix(), node.module, each.name


def test_apps_and_examples_import_only_documented_names() -> None:
    seen = list(imported())
    assert len(seen) > 400
    unknown = [
        f"{path}: from {module} import {name}"
        for path, module, name in seen
        if name not in PUBLIC.get(module, ()) and f"{module}.{name}" not in PUBLIC and module not in OPERATING
    ]
    assert not unknown, "\n".join(unknown)


def test_the_documented_names_can_be_imported_and_stay_few() -> None:
    for module, names in PUBLIC.items():
        loaded = importlib.import_module(module)
        assert names, module
        assert {name for name in names if not hasattr(loaded, name)} == set(), module
    # The names of a service are learned by those who use it.
    assert (
        sum(len(names) for module, names in PUBLIC.items() if not module.startswith("onceward.integrations.")) <= MOST
    )
    assert {"Attachment", "Recipient", "Entry", "Check", "Context"} <= PUBLIC["onceward"]


def test_every_documented_name_says_what_it_is() -> None:
    silent = [f"{module}.{name}" for module, names in PUBLIC.items() for name in names if not PROMISE(module, name)]
    assert not silent, f"write a docstring, or a string below the value: {silent}"


def test_a_package_without_documented_names_says_that_it_is_internal() -> None:
    packages = sorted(path.parent.name for path in Path(onceward.__file__).parent.glob("*/__init__.py"))
    for package in packages:
        text = importlib.import_module(f"onceward.{package}").__doc__ or ""
        assert f"onceward.{package}" in PUBLIC or "Internal" in text, f"onceward/{package}/__init__.py"
