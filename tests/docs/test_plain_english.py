"""Text is written in plain English: phrases that readers stumbled over do not come back.

The test reads docstrings, comments, messages, names of tests, pages of the dashboard and the documentation. It does not
read SQL, single words (keys, names) or code in backquotes. A phrase belongs here if it is almost always wrong.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THIS = Path(__file__)
CODE = ("onceward", "apps", "benchmarks", "tools", "tests", "docs")
PAGES = ("*.md", "docs/**/*.md", "apps/**/*.md", "onceward/**/*.html", "apps/**/*.html")

ADVICE = {
    r"told": "name who sends what: notified, logged, answered, distinguished",
    r"(?:is|are|was|were|be|been) said|said so": "name who writes it: logged, reported, shown",
    r"whoever": "name the person or the part: the caller, any node",
    r"anew|afresh": "again",
    r"so many(?! that)": "give the number, or name the limit",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more|different|better|worse|less|fewer)": "is not a ...",
    r"be had": "is available",
    r"(?:is|are|was|were|be) believed|believes": "is accepted, is trusted, stays valid",
    r"c[oa]mes? to pass": "happens",
    r"lest": "so that ... not",
    r"(?:due|open|running|paused) since \d+": "has been ... for",
}
BANNED = {re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE): advice for phrase, advice in ADVICE.items()}
HINTS = ("told", "said", "whoever", "anew", "afresh", "so many", "is no ", "are no ", "was no ", "were no ", "be had")
HINTS += ("believe", "to pass", " lest ", "due since", "open since", "running since", "paused since")
"""Parts of the phrases that are quick to look for: most files have none of them."""
CODE_IN_TEXT = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
SQL = re.compile(r"\b(?:select|insert into|update|delete from|create|jsonb_build_object)\b")


def may_have_problems(text: str) -> bool:
    folded = " ".join(text.lower().split())
    return any(hint in folded for hint in HINTS)


def problems_of(text: str, where: str) -> Iterator[str]:
    if not may_have_problems(text):
        return
    text = " ".join(CODE_IN_TEXT.sub("CODE", text).split())
    for pattern, advice in BANNED.items():
        for match in pattern.finditer(text):
            context = text[max(0, match.start() - 40) : match.end() + 30]
            yield f"{where}: {match[0].strip()!r} in {context!r}; write: {advice}"


def problems_of_module(source: str, where: str) -> Iterator[str]:
    """Yield the problems of the strings, the comments and the names of tests in a module."""
    if not may_have_problems(source.replace("_", " ")):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str() as text) if " " in text and not SQL.search(text):
                yield from problems_of(text, f"{where}:{node.lineno}")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                yield from problems_of(name.replace("_", " "), f"{where}:{node.lineno}")
            case _:
                pass
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from problems_of(token.string, f"{where}:{token.start[0]}")


@pytest.mark.parametrize("folder", CODE)
def test_code_is_written_in_plain_english(folder: str) -> None:
    modules = [path for path in sorted((ROOT / folder).rglob("*.py")) if path != THIS]
    assert modules
    problems = [
        problem
        for path in modules
        for problem in problems_of_module(path.read_text("utf-8"), str(path.relative_to(ROOT)))
    ]
    assert problems == [], "\n".join(problems)


def test_pages_are_written_in_plain_english() -> None:
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    problems = [
        problem for path in paths for problem in problems_of(path.read_text("utf-8"), str(path.relative_to(ROOT)))
    ]
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize(
    "text",
    [
        "The outage is told once.",
        "A connection could not be had.",
        "Applied by whoever comes first.",
        "a slow server is no absent one",
        "It starts\n    anew.",
        "Work is due since 5 min",
    ],
)
def test_a_phrase_of_the_old_dialect_is_found(text: str) -> None:
    assert len(list(problems_of(text, "here"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "There is no pool of that name.",
        "The link is no longer valid.",
        "So many that it must be counted.",
        "The column `told` is renamed.",
        "```\nwhoever\n```",
        "untold, lesson",
    ],
)
def test_ordinary_text_is_accepted(text: str) -> None:
    assert list(problems_of(text, "here")) == []


def test_strings_comments_and_names_of_tests_are_read_and_sql_is_not() -> None:
    source = (
        "def test_the_staff_is_told():\n"
        '    """It begins anew."""\n'
        "    x = 1  # whoever asks\n"
        '    y = "select told as t from x", "told"\n'
    )
    assert [problem.split(" in ")[0] for problem in problems_of_module(source, "m.py")] == [
        "m.py:1: 'told'",
        "m.py:2: 'anew'",
        "m.py:3: 'whoever'",
    ]
