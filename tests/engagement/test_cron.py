"""The schedules and their exit codes (AC-5.5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import structlog
from structlog.testing import capture_logs
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward.schedules import upcoming
from onceward_apps.engagement import app
from tests.engagement.house import House

FRIDAY = datetime(2020, 11, 20, 12, 0, tzinfo=UTC)


def dues(name: str) -> list[str]:
    return [f"{due:%a %d %H:%M %Z}" for due in upcoming(app.schedules[name], FRIDAY, 3)]


@pytest.mark.acceptance("AC-5.5.1")
def test_ac_5_5_1_the_daily_run_is_at_6_utc_every_day() -> None:
    timing: Any = app.schedules["engagement-daily"].timing
    assert (timing.expression, timing.tz) == ("0 6 * * *", "UTC")
    assert dues("engagement-daily") == ["Sat 21 06:00 UTC", "Sun 22 06:00 UTC", "Mon 23 06:00 UTC"]


@pytest.mark.acceptance("AC-5.5.2")
def test_ac_5_5_2_the_weekly_run_is_at_9_utc_on_mondays() -> None:
    timing: Any = app.schedules["engagement-weekly"].timing
    assert (timing.expression, timing.tz) == ("0 9 * * 1", "UTC")
    assert dues("engagement-weekly") == ["Mon 23 09:00 UTC", "Mon 30 09:00 UTC", "Mon 07 09:00 UTC"]


Cron = Callable[..., Any]


@pytest.fixture
def cron(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Cron:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    everything = FEATURES.plus(app.features())

    def call(*words: str) -> Any:
        return CliRunner().invoke(build(everything), ["cron", "run", *words, "--app", "onceward_apps.engagement:app"])

    return call


async def execute(url: str, *statements: str) -> None:
    conn = await asyncpg.connect(url)
    for statement in statements:
        await conn.execute(statement)
    await conn.close()


def users(count: int) -> str:
    ids = ", ".join(f"('{uuid4()}'::uuid)" for _ in range(count))
    return f"""
        with o as (insert into onceward.organizations (slug, name) values ('o', 'o') returning organization_id),
        p as (insert into engagement.user_profiles (organization_id, user_id, whatsapp_jid)
              select o.organization_id, u.id, '+5511900000001' from o, (values {ids}) as u (id) returning *)
        insert into engagement.user_engagement_states (organization_id, user_id, last_activity_at)
        select organization_id, user_id, now() - interval '15 days' from p
    """


def last_line(done: Any) -> dict[str, Any]:
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.acceptance("AC-5.5.3")
def test_ac_5_5_3_a_finished_run_exits_with_0_and_prints_its_counts(cron: Cron, database_url: str) -> None:
    asyncio.run(execute(database_url, users(2)))
    done = cron("engagement-daily")
    assert done.exit_code == 0, done.output
    line = last_line(done)
    assert {name: line[name] for name in ("event", "status", "processed", "succeeded", "failed", "skipped")} == {
        "event": "run_finished",
        "status": "success",
        "processed": 2,
        "succeeded": 2,
        "failed": 0,
        "skipped": 0,
    }
    assert cron("engagement-weekly", "--strict").exit_code == 0


@pytest.mark.acceptance("AC-5.5.3", "AC-5.5.4")
def test_ac_5_5_4_failed_users_exit_with_0_and_with_strict_with_1(cron: Cron, database_url: str) -> None:
    asyncio.run(
        execute(
            database_url,
            users(1),
            "create function refuse() returns trigger language plpgsql as $$begin raise exception 'broken'; end$$",
            "create trigger refuse before update on engagement.user_engagement_states"
            " for each row execute function refuse()",
        )
    )
    done = cron("engagement-daily")
    assert (done.exit_code, last_line(done)["failed"]) == (0, 1)
    assert cron("engagement-daily", "--strict").exit_code == 1


@pytest.mark.acceptance("AC-5.5.4")
def test_ac_5_5_4_a_broken_run_exits_with_1_and_names_the_error(cron: Cron, database_url: str) -> None:
    asyncio.run(execute(database_url, users(1), "alter table engagement.user_profiles rename to gone"))
    done = cron("engagement-daily")
    assert done.exit_code == 1
    line = last_line(done)
    assert (line["status"], line["error"]) == ("failed", "UndefinedTableError")


@pytest.mark.acceptance("AC-5.5.3")
async def test_ac_5_5_3_the_log_has_ids_times_and_counts_and_neither_numbers_nor_texts(house: House) -> None:
    from datetime import timedelta

    structlog.reset_defaults()
    user = await house.user(inactive=timedelta(days=20))
    await house.user(inactive=timedelta(days=20), opted_out=True)
    with capture_logs() as lines:
        report = await house.daily()
        await house.drain()
    by_event = {line["event"]: line for line in lines}
    started, completed = by_event["engagement.job_started"], by_event["engagement.job_completed"]
    assert started["job_id"] == completed["job_id"] == report.id
    assert "started_at" in started
    assert completed["duration_ms"] >= 0
    assert [completed[name] for name in ("processed", "succeeded", "failed", "skipped")] == [2, 1, 0, 1]
    assert (await house.number_of(user)).lstrip("+") not in json.dumps(lines, default=str)
