"""The five steps of the move from n8n, with the SQL of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward.db import migrate
from onceward.runtime import FEATURES
from onceward.testing.databases import with_database
from onceward.trust import verify
from onceward_apps.coursegen import app, checks
from tests.coursegen.school import School
from tests.coursegen.test_recovery import enqueue_by_sql

DOCS = (Path(__file__).parents[2] / "docs/apps/coursegen.md").read_text()
COURSE = "5b0a9a3e-7f0e-4d57-9c8a-0d8f5a1d2c3b"
LINES = FEATURES.plus(app.features()).migrations


def sql(step: int) -> list[str]:
    """Return the SQL blocks of one step."""
    part = DOCS.split("\n## ")[step]
    assert part.startswith(f"{step}. ")
    return re.findall(r"```sql\n(.*?)```", part, re.DOTALL)


@pytest.mark.acceptance("004-D1 migrations")
async def test_migrations_only_add_and_refuse_to_replace_an_existing_function(server_url: str) -> None:
    name = f"test_n8n_{uuid4().hex[:8]}"
    admin = await asyncpg.connect(server_url)
    await admin.execute(f"create database {name}")
    conn = await asyncpg.connect(with_database(server_url, name))
    try:
        await conn.execute(
            "create table public.courses (id uuid primary key, title text);"
            "create function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) returns jsonb"
            " language sql as $$select null::jsonb$$;"
            "insert into public.courses values (gen_random_uuid(), 'kept')"
        )
        with pytest.raises(Exception, match="rename or drop it"):
            await migrate(conn, LINES)
        assert await conn.fetchval("select to_regnamespace('coursegen')") is None
        await conn.execute(
            "alter function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) rename to old"
        )
        await migrate(conn, LINES)
        assert await conn.fetchval("select title from public.courses") == "kept"
        assert await conn.fetchval("select to_regclass('coursegen.courses')") is not None
    finally:
        await conn.close()
        await admin.execute(f"drop database {name} with (force)")
        await admin.close()


async def as_n8n(school: School, statement: str) -> Any:
    """Run a statement as the login that the documentation creates, without creating a role in the shared cluster."""
    async with school.db.acquire() as conn, conn.transaction():
        await conn.execute("set local role onceward_sql_worker")
        await conn.execute("select set_config('onceward.organization', $1, true)", str(school.organization))
        return await conn.fetchval(statement)


async def legacy_course(school: School) -> UUID:
    await school.db.execute(
        "create schema legacy; create table legacy.courses (id uuid, user_id uuid, title text, description text, generation_progress jsonb)"
    )
    await school.db.execute("insert into legacy.courses values ($1, $2, 'Old', null, null)", UUID(COURSE), school.user)
    [copy] = sql(1)
    await school.db.execute(copy)
    return UUID(COURSE)


@pytest.mark.acceptance("004-D2 backend")
async def test_n8n_writes_progress_by_sql_beside_the_backend(school: School) -> None:
    course_id = await legacy_course(school)
    _, calls = sql(2)
    for call in re.findall(r"select update_course_progress.*?;", calls, re.DOTALL):
        await as_n8n(school, call)
    step = (await school.course(course_id))["generation_progress"]["steps"][1]
    assert (step["status"], step["error"], step["metadata"]) == ("failed", "timeout", {"executor": "n8n"})
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await as_n8n(school, "select count(*) from coursegen.courses")
    other = await school.generate()
    assert (await school.course(other))["status"] == "completed"


@pytest.mark.acceptance("004-D4 parallel")
async def test_the_comparison_tells_both_executors_apart(school: School) -> None:
    course_id = await legacy_course(school)
    metadata = '\'{"executor": "n8n"}\''
    await as_n8n(school, f"select update_course_progress('{course_id}', 1, 'completed', 'm', null, null, {metadata})")
    await school.db.execute("update coursegen.courses set last_progress_update = now() - interval '2 hours'")
    await school.generate()
    await enqueue_by_sql(school, await school.add_course())
    await school.drain()
    executors, metrics = sql(4)
    rows = {row["executor"]: row for row in await school.db.fetch(executors)}
    assert (rows["n8n"]["stuck"], rows["n8n"]["finished"]) == (1, 0)
    assert (rows["orchestrator"]["stuck"], rows["orchestrator"]["finished"]) == (0, 1)
    await school.settle_notes()
    assert [row["event_type"] for row in await school.db.fetch(metrics)] == ["orphaned_job_recovery"]


@pytest.mark.acceptance("004-D5 sunset")
async def test_without_n8n_everything_still_runs_and_other_programs_enqueue_by_sql(school: School) -> None:
    course_id = await legacy_course(school)
    enqueue = sql(5)[-1]
    async with school.db.acquire() as conn, conn.transaction():
        await conn.execute("set local role onceward_app")
        await conn.execute("select set_config('onceward.organization', $1, true)", str(school.organization))
        await conn.fetchval(enqueue)
    await school.db.execute("update coursegen.courses set lesson_count = 1")
    await school.drain()
    assert (await school.course(course_id))["status"] == "completed"
    await school.generate()
    assert [result for result in await verify(school.db, checks.CHECKS) if not result.ok] == []


async def test_the_login_of_the_documentation_writes_progress_and_is_removed(school: School, database_url: str) -> None:
    course_id = await legacy_course(school)
    role, calls = sql(2)
    remove = sql(5)[0]
    name = f"n8n_{uuid4().hex[:8]}"  # roles belong to the server, which other tests use
    role = role.replace("role n8n", f"role {name}").replace(
        "00000000-0000-4000-8000-000000000001", str(school.organization)
    )
    await school.db.execute(role)
    try:
        conn = await asyncpg.connect(database_url, user=name)
        try:
            await conn.execute(calls)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.fetchval("select count(*) from coursegen.courses")
        finally:
            await conn.close()
        assert await school.db.fetchval(re.findall(r"`(select count.*?)`", DOCS, re.DOTALL)[0]) == 0
        assert (await school.course(course_id))["generation_progress"]["steps"][1]["status"] == "failed"
    finally:
        await school.db.execute(re.sub(r"\bn8n\b", name, remove))
    assert await school.db.fetchval("select count(*) from pg_roles where rolname = $1", name) == 0
