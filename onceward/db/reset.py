"""Drop everything that the migrations and function files of some owners create, so that they can be applied again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg

from onceward.db.errors import MigrationError
from onceward.feature import Migrations
from onceward.statements import read_statement

LOCK_TIMEOUT_S = 10
SCHEMA = re.compile(r"\bcreate\s+schema\s+(?:if\s+not\s+exists\s+)?(\w+)", re.IGNORECASE)
IN_PUBLIC = re.compile(
    r"\bcreate\s+(?:or\s+replace\s+)?(?:unlogged\s+)?"
    r"(?:table|view|materialized\s+view|sequence|type|domain|function|procedure)\s+(?:if\s+not\s+exists\s+)?"
    r"(?:public\s*\.\s*)?(\w+)\b(?!\s*\.)",
    re.IGNORECASE,
)
OBJECTS = read_statement("db", "public_objects")


async def drop_everything(conn: asyncpg.Connection[Any], lines: Sequence[Migrations]) -> None:
    """Drop the schemas of these owners, and what they create in `public`. Either all of it is dropped or nothing.

    Owners whose migrations were never applied here lose nothing: a table with the same name belongs to somebody else.
    Other objects of the schema `public` stay, and so do the roles, which belong to the whole server.
    """
    exists = await conn.fetchval("select to_regclass('onceward.migrations') is not null")
    applied = await conn.fetch("select distinct owner from onceward.migrations") if exists else []
    owners = {row["owner"] for row in applied}
    scripts = [script for line in lines if line.owner in owners for script in _scripts(line)]
    schemas = {"onceward"} | {name.lower() for script in scripts for name in SCHEMA.findall(script)} - {"public"}
    names = sorted({name.lower() for script in scripts for name in IN_PUBLIC.findall(script)})
    try:
        async with conn.transaction():
            await conn.execute(f"set local lock_timeout = {round(LOCK_TIMEOUT_S * 1000)}")
            for schema in sorted(schemas):
                await conn.execute(f'drop schema if exists "{schema}" cascade')
            for row in await conn.fetch(OBJECTS, names):
                await conn.execute(row[0])
    except asyncpg.LockNotAvailableError as error:
        raise MigrationError(
            f"nothing was dropped: another session has used the tables for {LOCK_TIMEOUT_S} s; stop all processes that "
            "use the database, and try again"
        ) from error


def _scripts(line: Migrations) -> Iterator[str]:
    functions = line.functions.rglob("*.sql") if line.functions is not None else ()
    for path in (*line.directory.glob("*.sql"), *functions):
        yield re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
