"""Every column of every table either has an eraser that works, or a stated reason why it needs none."""

from __future__ import annotations

import itertools
import json
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.trust.erase import INSTANCE, Eraser, erase
from onceward.trust.export import export
from onceward_apps import all as bundled
from tests.trust.conftest import Two

ANN = "ann@example.org"
ANNS_ID = UUID("6f1c0c4e-5a43-4c0e-9d0b-2b7a1f6f7a01")
JOANN = f"jo{ANN}"
JOANNS_ID = UUID("7f1c0c4e-5a43-4c0e-9d0b-2b7a1f6f7a02")

ALL = FEATURES.plus(bundled.app.features())
ERASERS: list[Eraser] = [eraser for erasers in ALL.load("erasers") for eraser in erasers]

COLUMNS = """
select n.nspname || '.' || c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and (format_type(a.atttypid, null) in ('text', 'text[]', 'json', 'jsonb', 'bytea', 'inet', 'character varying')
        or a.attname in ('user_id'))
   -- A check that lists the allowed values leaves no room for a person.
   and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]
                   and pg_get_constraintdef(k.oid) ~ '= ANY \\(\\(?ARRAY\\[')
 order by 1, 2
"""
SHAPE = """
select a.attname as column, format_type(a.atttypid, null) as type, a.attnotnull as required, a.attgenerated <> '' as generated
  from pg_attribute a where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped
"""
CHECKS = """
select k.conrelid::regclass::text as table, quote_ident(k.conname) as name from pg_constraint k
 where k.contype = 'c' and k.conrelid <> 0 and k.connamespace::regnamespace::text in ('onceward', 'ticketing', 'engagement', 'coursegen', 'learning', 'clinic')
"""
FILL: dict[str, Any] = {
    "bigint": 1,
    "integer": 1,
    "smallint": 1,
    "numeric": 1,
    "double precision": 1.0,
    "boolean": False,
    "jsonb": "{}",
    "json": "{}",
    "text[]": [],
    "uuid[]": [],
    "bigint[]": [],
}
STATES = {"state": "released", "status": "success"}
numbers = itertools.count(10)


@pytest.fixture
async def full(db: Database) -> Database:
    """With the tables of the apps."""
    async with db.acquire() as conn:
        await migrate(conn, ALL.migrations)
    return db


async def test_every_column_has_an_eraser_or_a_reason(full: Database) -> None:
    reasons: dict[str, str] = {}
    for feature in ALL:
        if feature.erasers is not None:
            reasons |= import_module(feature.erasers.partition(":")[0]).UNSEARCHED
    searched = {f"{eraser.table}.{column}" for eraser in ERASERS for column in eraser.columns}
    there = {f"{row['table']}.{row['column']}" for row in await full.fetch(COLUMNS)}
    open_columns = {
        name for name in there - searched if name not in reasons and f"{name.rpartition('.')[0]}.*" not in reasons
    }
    assert open_columns == set(), "add each to ERASERS, or to UNSEARCHED with the reason, in its package's erasers.py"
    tables = {name.rpartition(".")[0] for name in there}
    gone = {name for name in reasons if name.rpartition(".")[0] not in tables}
    gone |= {name for name in reasons if not name.endswith(".*") and name not in there}
    assert gone == set(), "these reasons are about columns that do not exist, or cannot hold a person anyway"
    assert searched & set(reasons) == set(), "a searched column needs no reason"


async def test_a_column_without_an_eraser_is_found(full: Database) -> None:
    await full.execute("create table onceward.letters (id bigint, kind text check (kind in ('a', 'b')), address text)")
    there = {f"{row['table']}.{row['column']}" for row in await full.fetch(COLUMNS)}
    assert {name for name in there if "letters" in name} == {"onceward.letters.address"}


SPECIAL = {"onceward.users"}
"""Has tests of its own: an account belongs to several organizations."""


def _in_organizations() -> list[Eraser]:
    return [each for each in ERASERS if each.scope != INSTANCE and each.table not in SPECIAL]


async def test_every_eraser_erases_the_person_and_nobody_else(full: Database, two: Two) -> None:
    await _loosen(full)
    for eraser in _in_organizations():
        for column in eraser.columns:
            await _insert(full, eraser, column, ANN, ANNS_ID, two.a)
            await _insert(full, eraser, column, JOANN, JOANNS_ID, two.a)
            await _insert(full, eraser, column, ANN, ANNS_ID, two.b)
    await _check(full, _in_organizations(), two.a)


async def test_every_eraser_of_the_instance_erases_the_person_and_nobody_else(full: Database) -> None:
    erasers = [each for each in ERASERS if each.scope == INSTANCE]
    assert erasers
    await _loosen(full)
    for eraser in erasers:
        for column in eraser.columns:
            await _insert(full, eraser, column, ANN, ANNS_ID, None)
            await _insert(full, eraser, column, JOANN, JOANNS_ID, None)
    await _check(full, erasers, None)


async def _check(db: Database, erasers: list[Eraser], organization: UUID | None) -> None:
    refs = [ANN, str(ANNS_ID)]
    others = await _others(db, erasers, organization)
    exported = await export(db, refs, erasers, organization=organization, actor="test")
    dry = await erase(db, refs, erasers, organization=organization, actor="test", dry_run=True)
    report = await erase(db, refs, erasers, organization=organization, actor="test")
    assert dry.searched == report.searched, "a dry run reports what the erasure does"
    for eraser, searched in zip(erasers, report.searched, strict=True):
        assert searched.rows + searched.waiting > 0, eraser.name
        assert len(exported["data"][eraser.name]) >= len(eraser.columns), eraser.name
        if eraser.kept is None and eraser.waits != "true":
            assert searched.rows > 0, f"{eraser.name}: nothing was erased"
            for column in eraser.columns:
                assert not await _left(db, eraser, column, organization), (
                    f"{eraser.table}.{column} still has the person"
                )
    assert await _others(db, erasers, organization) == others, "somebody else was touched"
    again = await erase(db, refs, erasers, organization=organization, actor="test")
    assert sum(again.rows.values()) == 0, again.found


async def _left(db: Database, eraser: Eraser, column: str, organization: UUID | None) -> bool:
    own = "true" if organization is None else "organization_id = $2"
    text = f"convert_from({column}, 'UTF8')" if eraser.columns[column] == "body" else f"{column}::text"
    arguments = [f'(^|[ "{{]){ANN}|{ANNS_ID}'] + ([] if organization is None else [organization])
    waits = eraser.waits
    return await db.fetchval(
        f"select coalesce(bool_or({text} ~ $1), false) from {eraser.table} t where {own} and not ({waits})", *arguments
    )


async def _others(db: Database, erasers: list[Eraser], organization: UUID | None) -> dict[str, str]:
    """Rows of somebody else, and of another organization, by table. The audit log grows by the erasure itself."""
    found: dict[str, str] = {}
    for table in sorted({each.table for each in erasers}):
        where = f"t::text ~ '{JOANN}|{JOANNS_ID}|{JOANN.encode().hex()}'"
        if organization is not None:
            where += f" or organization_id <> '{organization}'"
        if table == "onceward.audit_log":
            where = f"({where}) and action not like 'person.%' and action not like 'audit.%'"
        rows = await db.fetch(f"select t::text as row from {table} t where {where} order by 1")
        found[table] = "\n".join(row["row"] for row in rows)
    return found


async def _loosen(db: Database) -> None:
    """Let a row be made of anything: these tests are about columns, not about what rows mean."""
    for row in await db.fetch(CHECKS):
        await db.execute(f"alter table {row['table']} drop constraint {row['name']}")
    await db.execute("alter domain onceward.outcome drop constraint outcome_check")


async def _insert(db: Database, eraser: Eraser, column: str, ref: str, ref_id: UUID, organization: UUID | None) -> None:
    """A row in which this column, and no other, is about the person."""
    values: dict[str, Any] = {}
    for row in await db.fetch(SHAPE, eraser.table):
        name, kind = row["column"], row["type"]
        if row["generated"]:
            continue
        if name == "organization_id":
            if organization is not None:
                values[name] = organization
        elif name == column:
            values[name] = _about(eraser.columns[column], kind, ref, ref_id)
        elif name in STATES and kind == "text":
            values[name] = STATES[name]
        elif row["required"]:
            values[name] = _filler(kind)
    names, marks = ", ".join(values), ", ".join(f"${n}" for n in range(1, len(values) + 1))
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("set local session_replication_role = replica")
        # An identity is given by hand as well.
        await conn.execute(
            f"insert into {eraser.table} ({names}) overriding system value values ({marks})", *values.values()
        )


def _about(kind: str, type_: str, ref: str, ref_id: UUID) -> Any:
    match kind:
        case "whole":
            return ref_id if type_ == "uuid" else ref
        case "text":
            return f"about {ref} ({next(numbers)})"
        case "list":
            return [ref]
        case "json":
            return {"some": [{"where": ref}]}
        case _:
            return json.dumps({"data": {"email": ref}}).encode()


def _filler(type_: str) -> Any:
    from datetime import UTC, datetime

    if type_ in ("bigint", "integer", "smallint"):
        return next(numbers)
    if type_ in FILL:
        return json.loads(FILL[type_]) if type_ in ("json", "jsonb") else FILL[type_]
    if type_ == "uuid":
        return uuid4()
    if type_ == "bytea":
        return str(next(numbers)).encode()
    if type_ == "timestamp with time zone":
        return datetime.now(UTC)
    if type_ == "date":
        return datetime.now(UTC).date()
    if type_ == "xid8":
        return next(numbers)
    return f"filler-{next(numbers)}"
