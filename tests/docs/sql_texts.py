"""The SQL of the documentation: blocks, statements within the text, and those that shell blocks pass to psql."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.test_code_blocks import PAGES, ROOT

ANY_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
INLINE = re.compile(
    r"`((?:select|insert into|update|delete from|with|alter|grant|revoke|create|drop|truncate)\s[^`]+)`"
)
PSQL = re.compile(r'^ *onceward db psql -\w*c (".*")$', re.MULTILINE)
TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|;|[^'\-;]+|-", re.DOTALL)


@dataclass(frozen=True)
class SqlText:
    """One or more statements of a page, and the line where they begin."""

    page: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def statements(self) -> list[str]:
        """Return the statements, without their comments. A semicolon within a string does not end one."""
        found = [""]
        for token in TOKEN.findall(self.code):
            if token == ";":
                found.append("")
            elif not token.startswith("--"):
                found[-1] += token
        return [statement.strip() for statement in found if statement.strip()]


def sql_of(page: Path, text: str) -> Iterator[SqlText]:
    for match in ANY_BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        if match["language"] == "sql":
            yield SqlText(page, line, textwrap.dedent(match["code"]))
        for command in PSQL.finditer(match["code"]):
            yield SqlText(page, line, shlex.split(command[1])[0])
    prose = ANY_BLOCK.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in INLINE.finditer(prose):
        yield SqlText(page, prose[: match.start()].count("\n") + 1, match[1])


@cache
def documented_sql() -> tuple[SqlText, ...]:
    return tuple(each for page in PAGES for each in sql_of(page, page.read_text("utf-8")))
