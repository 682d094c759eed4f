"""Everything that a database stores, as text, for tests that look for what must not be stored."""

from __future__ import annotations

from onceward.db import Database

TABLES = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') order by 1
"""


async def dump(db: Database) -> str:
    """Return every row of every table as PostgreSQL writes it. Values of type bytea are hexadecimal."""
    lines: list[str] = []
    for table in await db.fetch(TABLES):
        rows = await db.fetch(f"select t::text as line from {table['name']} t")
        lines += [f"{table['name']} {row['line']}" for row in rows]
    return "\n".join(lines)
