"""A template database with the engine's tables and those of one app, built once per content of the migrations."""

from __future__ import annotations

import hashlib

import asyncpg

from onceward import Onceward
from onceward.db import migrate
from onceward.runtime import FEATURES
from tests.conftest import with_database


async def build_template(server_url: str, app: Onceward) -> str:
    """Create the template unless it exists, and return its name."""
    migrations = FEATURES.plus(app.features()).migrations
    digest = hashlib.sha256()
    for line in migrations:
        for path in sorted(line.directory.glob("*.sql")):
            digest.update(path.read_bytes())
    name = f"{app.name}_{digest.hexdigest()[:16]}"
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute("select pg_advisory_lock(hashtext('template of ' || $1)::bigint)", app.name)
        if await admin.fetchval("select 1 from pg_database where datname = $1", name):
            return name
        await admin.execute(f"drop database if exists {name}_building with (force)")
        await admin.execute(f"create database {name}_building")
        conn = await asyncpg.connect(with_database(server_url, f"{name}_building"))
        await migrate(conn, migrations)
        await conn.close()
        await admin.execute(f"alter database {name}_building rename to {name}")
    finally:
        await admin.close()
    return name
