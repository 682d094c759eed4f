"""SQL statements of the engine: in files, each with its promise in the first line, each used."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import onceward
from onceward.db import Database
from onceward.inbox.event import EventKind
from onceward.messages.kind import MessageKind
from onceward.outbox.deliver import DeliveryKind
from onceward.runtime import FEATURES
from onceward.statements import named
from onceward.work.claim import WORK_COLUMNS
from onceward.work.claimed import Claimed
from onceward.work.enqueuing import PARAMETER_TYPES, EnqueueColumns
from onceward.work.kind_routines import RoutineMissing, check_routines
from onceward.work.statements import CLAIM, CLAIM_LANES, ENQUEUE, ENQUEUE_ELSEWHERE, ENQUEUE_UNIQUE
from onceward.workflows.history import WorkflowKind

ROOT = Path(onceward.__file__).parent
PACKAGES = (
    "capacity",
    "db",
    "inbox",
    "ledger",
    "limits",
    "live",
    "messages",
    "outbox",
    "schedules",
    "trust",
    "work",
    "workflows",
)
CALLED = re.compile(r"""read_statement\(\s*"(\w+)",\s*"(\w+)"\s*\)""")
CONSTANT = re.compile(r'^(\w+) = """(.*?)"""', re.MULTILINE | re.DOTALL)
STATEMENT = re.compile(r"(?:\s*--[^\n]*\n)*\s*(?:select|insert|update|delete|with|merge)\b", re.IGNORECASE)
SEVERAL = "create_migrations"
"""The one file with several statements: they create the tables from which the migrator reads."""
COMPOSED = {("inbox/event_details.py", "SHOW"), ("outbox/delivery_history.py", "DELIVERY")}
"""Statements to which Python adds a condition. They stay beside the code that does it."""


def files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package / "sql").glob("*.sql"))]


def test_each_file_states_its_promise_first_and_holds_one_statement() -> None:
    assert len(files()) > 150
    for path in files():
        if path.stem == SEVERAL:
            continue
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        assert re.match(r"-- [A-Z].*\w", first), f"{path}: the first line must be a comment that states the promise"
        code = re.sub(r"'[^']*'", "''", "\n".join(line.split("--")[0] for line in rest))
        assert STATEMENT.match(code), f"{path}: no statement after the comment"
        assert ";" not in code.rstrip().rstrip(";"), f"{path}: more than one statement"


def test_each_file_is_read_and_each_name_exists() -> None:
    read = {
        call
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for call in CALLED.findall(path.read_text())
    }
    assert read == {(path.parent.parent.name, path.stem) for path in files()}


def statements_in_python() -> Iterator[tuple[str, str]]:
    """Yield the constants that are a plain SQL statement of more than two lines."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, value in CONSTANT.findall(path.read_text(encoding="utf-8")):
                if STATEMENT.match(value) and len(value.strip().splitlines()) > 2:
                    yield path.relative_to(ROOT).as_posix(), name


def test_long_statements_are_not_python_strings() -> None:
    assert set(statements_in_python()) == COMPOSED


BY_NUMBER = {"claim": 10, "enqueue": 20, "receive_alike": 17, "record": 14}
"""Statements with many numbered parameters: those of hot paths, whose tuples name their fields."""


def test_a_statement_with_ten_parameters_names_them() -> None:
    counts = {path.stem: max(map(int, re.findall(r"\$(\d+)", path.read_text())), default=0) for path in files()}
    assert {name: count for name, count in counts.items() if count >= 10} == BY_NUMBER


def test_a_named_statement_numbers_its_parameters_and_refuses_other_values() -> None:
    save = named("update t set a = $a, b = coalesce($b, $a) where id = $id::bigint")
    assert save.text == "update t set a = $1, b = coalesce($2, $1) where id = $3::bigint"
    assert save.values(id=7, b=2, a=1) == [1, 2, 7]
    with pytest.raises(TypeError, match=r"lacks values for \['b'\] and has no parameters \['c'\]"):
        save.values(id=7, a=1, c=2)


def test_the_parameters_of_an_enqueue_stand_in_the_order_of_the_statement() -> None:
    settings = re.search(r"as s \((.*?), number\)", ENQUEUE, re.DOTALL)
    assert settings is not None
    assert tuple(settings[1].replace("\n", " ").replace(" ", "").split(",")) == EnqueueColumns._fields[4:]
    assert "unnest($1::text[], $2::int[]) with ordinality as i (args, number, n)" in ENQUEUE
    assert set(PARAMETER_TYPES) == set(ENQUEUE_ELSEWHERE.names) == set(ENQUEUE_UNIQUE.names)


async def test_both_claims_return_work_in_the_order_of_its_constructor(db: Database) -> None:
    parameters = list(inspect.signature(Claimed).parameters)
    expected = ["organization_id" if name == "organization" else name for name in parameters if name != "lease"]
    assert list(WORK_COLUMNS) == expected
    async with db.acquire() as conn:
        for statement in (CLAIM, CLAIM_LANES.text):
            columns = [each.name for each in (await conn.prepare(statement)).get_attributes()]
            assert columns[: len(WORK_COLUMNS)] == expected


async def test_the_names_that_sql_builds_are_declared(db: Database) -> None:
    built = {
        row["name"]
        for row in await db.fetch(
            r"select 'onceward.' || proname as name from pg_proc where pronamespace = 'onceward'::regnamespace"
            r" and proname ~ '^(settled|ended|succeed|move_back)_'"
        )
    }
    kinds = (EventKind(), MessageKind(), DeliveryKind(Any), WorkflowKind())  # pyright: ignore[reportArgumentType]
    declared = {name for kind in kinds for name in astuple(kind.routines) if name is not None}
    moves = {feature.move_back for feature in FEATURES if feature.move_back is not None}
    own = {"onceward.succeed_job", "onceward.succeed_inline"}
    assert built == declared | moves | own
    await check_routines(db, kinds)
    await db.execute("drop function onceward.settled_message")
    with pytest.raises(RoutineMissing, match=r"kind 'message': .* onceward.settled_message; run `onceward migrate`"):
        await check_routines(db, kinds)
