"""Rows for every table of the apps, made from the catalog, so that a new table needs no line here.

Row `n` of each table has the same id in all of them: what refers to another table finds its row there.
"""

from __future__ import annotations

import re
from typing import Any

from onceward.db import Connection
from onceward_apps import all as bundled

SCHEMAS = ("learning", "ticketing", "engagement", "coursegen", "clinic")

COLUMNS = """
select c.oid::regclass::text as table, a.attname as name, format_type(a.atttypid, null) as type, a.attnotnull as required,
       a.atthasdef as has_default, a.attgenerated <> '' as generated,
       (select pg_get_constraintdef(k.oid) from pg_constraint k
         where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]
           and pg_get_constraintdef(k.oid) like '%ARRAY[%' limit 1) as allowed
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relkind = 'r' and c.relnamespace::regnamespace::text = any ($1)
 order by c.oid::regclass::text, a.attnum
"""
CHECKS = """
select k.conrelid::regclass::text as table, quote_ident(k.conname) as name from pg_constraint k
 where k.contype = 'c' and k.conrelid <> 0 and k.connamespace::regnamespace::text = any ($1)
"""
ID = "('00000000-0000-4000-8001-' || lpad(to_hex(n), 12, '0'))::uuid"
NAMED = ("email", "phone", "whatsapp", "name", "title", "code", "reference", "receipt", "text", "body", "reason")
"""Columns that people search, which get a value although they may be null."""
VALUES = {
    "uuid": ID,
    "text": "'{name}-' || n",
    "text[]": "'{{}}'",
    "integer[]": "'{{1}}'",
    "time": "time '10:00'",
    "jsonb": "'{{}}'",
    "json": "'{{}}'",
    "boolean": "n % 2 = 0",
    "bytea": "decode(md5(n::text) || md5('{name}' || n), 'hex')",
    "timestamp with time zone": "at",
    "date": "(at - make_interval(secs => n * 60))::date",
    "time without time zone": "time '10:00'",
    "interval": "interval '1 hour'",
    "numeric": "1",
    "double precision": "1",
    "bigint": "n",
    "integer": "n % 100 + 1",
    "smallint": "n % 100 + 1",
}
SPECIAL = {
    "organization_id": "o",
    "currency": "'EUR'",
    "timezone": "'UTC'",
    "locale": "'en'",
    "language": "'en'",
    "email": "'person-' || n || '@example.org'",
}


SEQUENCES = """
select setval(pg_get_serial_sequence(c.oid::regclass::text, a.attname), $2::bigint)
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attidentity <> ''
 where c.relkind = 'r' and c.relnamespace::regnamespace::text = any ($1)
"""


async def fill_apps(conn: Connection) -> None:
    """Fill the tables of the apps with a row for each row of the table `made`."""
    sealed = {column.table for feature in bundled.app.features() for column in feature.sealed}
    tables: dict[str, dict[str, str]] = {}
    for row in await conn.fetch(COLUMNS, list(SCHEMAS)):
        value = _value(row)
        if value is not None:
            tables.setdefault(row["table"], {})[row["name"]] = value
    for row in await conn.fetch(CHECKS, list(SCHEMAS)):
        await conn.execute(f"alter table {row['table']} drop constraint {row['name']}")
    for table, values in tables.items():
        if table in sealed:  # the app makes its own keys
            continue
        await conn.execute(
            f"insert into {table} ({', '.join(values)}) overriding system value"
            f" select {', '.join(values.values())} from made on conflict do nothing"
        )
    await conn.fetch(SEQUENCES, list(SCHEMAS), await conn.fetchval("select max(n) from made"))


def _value(column: Any) -> str | None:
    name, kind = column["name"], column["type"]
    if column["generated"]:
        return None
    if name in SPECIAL:
        return SPECIAL[name]
    if name.endswith("_email"):
        return SPECIAL["email"]
    if column["allowed"] is not None and kind == "text":
        allowed = re.findall(r"'([^']*)'::text", column["allowed"])
        return f"(array{allowed!r})[n % {len(allowed)} + 1]"
    if name == "id" or name.endswith("_id") or kind == "uuid":
        return VALUES[kind].format(name=name)
    if column["required"] and (not column["has_default"] or name.endswith("_at")):
        return VALUES[kind].format(name=name)
    named = any(part in name for part in NAMED) and not name.startswith("error")
    if kind == "text" and not column["has_default"] and named:
        return VALUES[kind].format(name=name)
    return None
