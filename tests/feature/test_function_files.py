"""The function files of all packages follow the rules of docs/database.md, and the migrations contain no functions."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from onceward.db import Database, FunctionFile
from onceward.db.functions import COMMENTS, read_functions
from onceward.db.statements import split
from onceward.feature import Migrations
from onceward.runtime import FEATURES
from onceward_apps.all import app

LINES = FEATURES.plus(app.features()).migrations
FILES = [file for line in LINES for file in read_functions(line)]
ENGINE = {line.owner for line in FEATURES.migrations}
NOT_IN_MIGRATIONS = re.compile(r"\bcreate\s+(?:or\s+replace\s+)?(?:function|procedure|view|trigger)\b", re.IGNORECASE)
REPEATABLE = re.compile(
    r"(create or replace (function|procedure|view|trigger)|comment on|revoke|grant|alter (view|table \S+ enable always trigger)) ?",
    re.IGNORECASE,
)


def code(sql: str) -> list[str]:
    """Return the statements without the comments before them."""
    return [COMMENTS.sub("", statement) for statement in split(sql)]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.owner)
def test_migrations_contain_no_functions_views_or_triggers(line: Migrations) -> None:
    for path in line.directory.glob("*.sql"):
        assert not [s for s in code(path.read_text(encoding="utf-8")) if NOT_IN_MIGRATIONS.match(s)], path


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_begins_with_its_promise_and_can_be_repeated(file: FunctionFile) -> None:
    first = file.sql.splitlines()[0]
    assert re.match(r"-- [A-Z`].{20,}", first), f"{file}: the first line must be a comment that states the promise"
    for statement in code(file.sql):
        assert REPEATABLE.match(statement), f"{file}: {statement[:60]!r} does not belong here, or cannot be repeated"


@pytest.mark.parametrize("file", [file for file in FILES if "security definer" in file.sql], ids=str)
def test_a_function_with_the_rights_of_its_owner_is_closed_to_others(file: FunctionFile) -> None:
    for statement in code(file.sql):
        if re.match(r"create or replace function", statement) and "security definer" in statement.split("$$")[0]:
            assert "set search_path = pg_catalog, pg_temp" in statement, f"{file}: fix the search path"
            name = re.search(r"function (\w+\.\w+)", statement)
            assert name is not None
            assert re.search(rf"revoke all on function {re.escape(name[1])}\([^;]* from public;", file.sql), file


def test_every_function_is_created_by_one_file() -> None:
    counted = Counter(name for file in FILES for name in file.created)
    assert len(counted) > 100
    assert {name for name, files in counted.items() if files > 1} == set()


def test_only_functions_that_tables_need_run_before_the_tables() -> None:
    """Everything else runs after the tables, so that its body is checked against them and it can take rows as arguments."""
    migrations = "\n".join(
        statement for line in LINES for path in line.directory.glob("*.sql") for statement in code(path.read_text())
    )
    early = [file for file in FILES if file.before_tables]
    for file in early:
        others = "\n".join(each.sql for each in early if each is not file)
        called = [f"{schema}.{name}(" for schema, name in file.created]
        assert any(call in migrations or call in others for call in called), f"{file}: no table or migration uses it"


async def test_the_database_has_exactly_the_functions_of_the_files(db: Database) -> None:
    declared = {f"{schema}.{name}" for file in FILES if file.owner in ENGINE for schema, name in file.created}
    rows = await db.fetch(
        "select distinct n.nspname || '.' || p.proname as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('onceward', 'webhook', 'audit') and p.proname !~ '^feed_[0-9]+_'"
    )
    assert {row["name"] for row in rows} == declared
