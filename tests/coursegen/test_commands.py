"""`onceward coursegen`: an operator at the command line."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID, uuid4

import asyncpg
import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward_apps.coursegen import app


async def add_failed_course(url: str, user: UUID) -> UUID:
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(
            "insert into coursegen.courses (organization_id, user_id, title, lesson_count, budget_micros, status, error_code)"
            " select organization_id, $1, 'Knots', 1, 1000, 'failed', 'timeout' from onceward.organizations returning id",
            user,
        )
    finally:
        await conn.close()


def test_an_operator_sets_a_tier_looks_at_a_course_and_resumes_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    cli, runner = build(FEATURES.plus(app.features())), CliRunner()

    def onceward(*words: str, fails: bool = False) -> str:
        result = runner.invoke(cli, list(words))
        assert (result.exit_code != 0) is fails, result.output
        return f"{result.output} {result.exception or ''}"

    onceward("organizations", "add", "school")
    user = uuid4()
    assert "PREMIUM" in onceward("coursegen", "tier", str(user), "premium", "-o", "school")
    assert "GOLD" in onceward("coursegen", "tier", str(user), "GOLD", "-o", "school", fails=True)
    course = str(asyncio.run(add_failed_course(database_url, user)))
    [listed] = json.loads(onceward("coursegen", "courses", "-o", "school", "--json"))
    assert (listed["id"], listed["status"], listed["error_code"]) == (course, "failed", "timeout")
    shown = json.loads(onceward("coursegen", "show", course, "-o", "school"))
    assert (shown["title"], shown["calls"]) == ("Knots", [])
    assert "continues as job" in onceward("coursegen", "resume", course, "-o", "school")
    assert "is queued" in onceward("coursegen", "resume", course, "-o", "school", fails=True)
    [listed] = json.loads(onceward("coursegen", "courses", "-o", "school", "--json"))
    assert (listed["status"], listed["tier"]) == ("queued", "PREMIUM")
