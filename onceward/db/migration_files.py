"""Numbered SQL files: their order, and what their first lines declare.

    -- onceward: expand                code without this file keeps running and may start
    -- onceward: contract after 0003   code with migration 0003 of this owner keeps running; older code does not
    -- onceward: no transaction        run statement by statement, for CREATE INDEX CONCURRENTLY

A file that declares neither `expand` nor `contract` is applied as well, but code without it does not start any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from onceward.db.errors import BrokenLine
from onceward.feature import Migrations

NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
DECLARATION = re.compile(r"^--\s*onceward:\s*(.*)$")
CONTRACT = re.compile(r"^contract after (\d{4})$")
FORMS = "`expand`, `contract after 0001` or `no transaction`"


@dataclass(frozen=True)
class Migration:
    owner: str
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @cached_property
    def declared(self) -> list[str]:
        """Return the declarations in the comments before the first statement."""
        lines = (line.strip() for line in self.sql.splitlines())
        head = takewhile(lambda line: not line or line.startswith("--"), lines)
        return [match[1] for line in head if (match := DECLARATION.match(line)) is not None]

    @property
    def in_transaction(self) -> bool:
        return "no transaction" not in self.declared

    @property
    def requires(self) -> int | None:
        """Return the migration of this owner that code must have after this one: 0 for any code, None if not
        declared."""
        for word in self.declared:
            if word == "expand":
                return 0
            if (match := CONTRACT.match(word)) is not None:
                return int(match[1])
        return None

    @property
    def contracts(self) -> bool:
        return bool(self.requires)

    @property
    def kind(self) -> str:
        return "contract" if self.contracts else "migration" if self.requires is None else "expand"

    def check(self) -> None:
        """Raise `BrokenLine` for a declaration that is unknown or cannot be true."""
        kinds = 0
        for word in self.declared:
            match = CONTRACT.match(word)
            if match is None and word not in ("expand", "no transaction"):
                raise BrokenLine(f"{self}: `-- onceward: {word}` is not a declaration: use {FORMS}")
            if match is not None and not 0 < int(match[1]) < self.number:
                raise BrokenLine(f"{self}: `contract after {match[1]}` must name an earlier migration of {self.owner}")
            kinds += word != "no transaction"
        if kinds > 1:
            raise BrokenLine(f"{self}: declare either `expand` or `contract after ...`, once")

    def __str__(self) -> str:
        return f"{self.owner}/{self.number:04d}_{self.name}"


def read(line: Migrations) -> list[Migration]:
    """Return the migrations of an owner in order. Raises `BrokenLine` for a gap, a duplicate or a bad declaration."""
    files: list[Migration] = []
    for path in sorted(line.directory.glob("*.sql")):
        match = NAME.match(path.name)
        if match is None:
            raise BrokenLine(f"{line.owner}: {path.name} is not a valid name: rename it like 0001_what_it_does.sql")
        files.append(Migration(line.owner, int(match[1]), match[2], path.read_text(encoding="utf-8")))
    for expected, migration in enumerate(files, start=1):
        if migration.number != expected:
            raise BrokenLine(f"{line.owner}: expected number {expected:04d}, found {migration}")
        migration.check()
    return files


def known(lines: Sequence[Migrations]) -> dict[str, int]:
    """Return the number of the last migration of each owner that this code has."""
    return {line.owner: max((each.number for each in read(line)), default=0) for line in lines}
