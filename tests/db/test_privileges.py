"""A dump that was restored on a server without our roles lacks every grant and policy: `migrate` creates them again."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import Database, MigrationError, migrate
from onceward.db.commands.migrate import _migrate
from onceward.db.privileges import missing_privileges
from onceward.doctor.logins import check_roles
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings

ROLES = "onceward_engine, onceward_app, onceward_sql_worker"
CATALOGUE = "select count(*) from pg_policies where schemaname = 'onceward'"
OPEN = "select count(*) from pg_proc where proname = 'limit_take' and has_function_privilege('public', oid, 'execute')"


async def lose_roles(db: Database) -> None:
    """Leave what `pg_restore` leaves on a server without the roles."""
    conn = await db.connect()
    await conn.execute(f"drop owned by {ROLES}")
    await conn.execute("grant execute on all functions in schema onceward to public")
    await conn.close()


async def test_migrate_creates_missing_privileges_and_policies_again(db: Database, database_url: str, tmp_path) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, auto_migrate=False)
    policies, opened = await db.fetchval(CATALOGUE), await db.fetchval(OPEN)
    conn = await db.connect()
    assert await missing_privileges(conn) == []
    await lose_roles(db)
    assert await conn.fetchval(CATALOGUE) < policies
    assert (await check_roles(conn)).status == "fail"
    with pytest.raises(MigrationError, match=r"privileges or policies are missing.*`onceward migrate`"):
        await Process(Onceward("t"), settings, FEATURES).start({"worker"})
    assert await _migrate(FEATURES.migrations, settings, only_plan=False, reapply_functions=False) == ([], [])
    assert await missing_privileges(conn) == []
    assert (await conn.fetchval(CATALOGUE), await conn.fetchval(OPEN)) == (policies, opened)
    assert (await check_roles(conn)).status == "ok"
    await lose_roles(db)
    await conn.execute("drop table onceward.proofs")  # an object that somebody dropped needs no privilege
    assert await migrate(conn, FEATURES.migrations) == []
    assert await missing_privileges(conn) == []
    await conn.close()
