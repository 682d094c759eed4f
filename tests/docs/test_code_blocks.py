"""Every Python block of the documentation compiles, imports only what exists, and runs if it defines an app."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

from onceward import Onceward

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(?P<indent> *)```(?:python|py)\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
OURS = ("onceward", "onceward_apps")


@dataclass(frozen=True)
class CodeBlock:
    """A Python block and where it begins."""

    page: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def compiled(self) -> CodeType:
        """Return the code. A fragment may use `await` outside a function."""
        return compile(self.code, str(self), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    def tree(self) -> ast.Module:
        return ast.parse(self.code)

    def defines_app(self) -> bool:
        return any(
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "Onceward"
            for node in self.tree().body
        )

    def missing_imports(self) -> list[str]:
        """Return the names that the block imports from Onceward and that do not exist."""
        missing: list[str] = []
        for node in ast.walk(self.tree()):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
                missing += [f"{node.module}.{name.name}" for name in node.names if not exists(node.module, name.name)]
            elif isinstance(node, ast.Import):
                ours = [name.name for name in node.names if name.name.partition(".")[0] in OURS]
                missing += [name for name in ours if not exists(name)]
        return missing


def exists(module: str, name: str | None = None) -> bool:
    """Return whether the module, or the name in it, can be imported."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return False
    return name is None or hasattr(found, name) or exists(f"{module}.{name}")


def blocks_of(page: Path, text: str) -> list[CodeBlock]:
    return [
        CodeBlock(page, text[: match.start()].count("\n") + 1, textwrap.dedent(match["code"]))
        for match in BLOCK.finditer(text)
    ]


@cache
def documented_blocks() -> tuple[CodeBlock, ...]:
    return tuple(block for page in PAGES for block in blocks_of(page, page.read_text("utf-8")))


def test_every_block_compiles_and_imports_what_exists() -> None:
    assert len(documented_blocks()) > 40
    problems: list[str] = []
    for block in documented_blocks():
        try:
            block.compiled()
        except SyntaxError as error:
            problems.append(f"{block}: {error}")
        else:
            problems += [f"{block}: {name} does not exist" for name in block.missing_imports()]
    assert problems == []


APPS = [block for block in documented_blocks() if block.defines_app()]


@pytest.mark.parametrize("block", APPS, ids=str)
def test_a_block_that_defines_an_app_runs(block: CodeBlock, tmp_path: Path) -> None:
    # A module that is executed has a file, beside which it looks for its migrations.
    for folder in ("migrations", "functions"):
        (tmp_path / folder).mkdir()
    namespace: dict[str, object] = {"__name__": "documented", "__file__": str(tmp_path / "documented.py")}
    exec(block.compiled(), namespace)
    assert any(isinstance(value, Onceward) for value in namespace.values())


def test_most_introductions_are_whole_programs() -> None:
    pages = {block.page.name for block in APPS}
    assert {"README.md", "inbox.md", "work.md", "schedules.md", "workflows.md", "live.md", "tutorial.md"} <= pages


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("from onceward import Tx, Nothing\n", ["onceward.Nothing"]),
        ("import onceward.nowhere\n", ["onceward.nowhere"]),
        ("from onceward.testing import simulators\n", []),
        ("from elsewhere import anything\n", []),
    ],
)
def test_a_wrong_import_is_found(code: str, missing: list[str]) -> None:
    [block] = blocks_of(ROOT / "README.md", f"Text.\n\n```python\n{code}```\n")
    assert block.line == 3
    assert block.missing_imports() == missing
