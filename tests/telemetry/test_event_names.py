"""Names of log events: a noun and what happened to it, so that one can search for both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import onceward

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAME = re.compile(r"[a-z][a-z_]*\.[a-z][a-z_]*")


def logged() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of every log event of the engine."""
    root = Path(onceward.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "settings" in path.parts:
            continue  # it warns through the standard library, before the log is configured
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if not isinstance(node.func.value, ast.Name) or node.func.value.id != "log":
                continue
            first = node.args[1 if node.func.attr == "log" else 0]
            if node.func.attr in LEVELS | {"log"} and isinstance(first, ast.Constant):
                yield f"{path.relative_to(root)}:{node.lineno}", str(first.value)


def test_names_of_log_events_have_a_noun_and_a_verb() -> None:
    events = list(logged())
    assert len(events) > 60
    assert [each for each in events if not NAME.fullmatch(each[1])] == []
