"""Invariants, erasure and export of a person, the simulation, and the commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward.trust import verify
from onceward.trust.erase import erase
from onceward_apps.engagement import activity, app, checks
from onceward_apps.engagement.app import EngagementSettings
from onceward_apps.engagement.simulation import simulate
from tests.engagement.house import House

ALL = FEATURES.plus(app.features())


async def problems(house: House) -> list[str]:
    return [problem for result in await verify(house.db, checks.CHECKS) for problem in result.problems]


async def test_the_invariants_hold_after_a_users_whole_life(house: House) -> None:
    await house.source(organization=house.organization)
    for word in ("help", "later", "stop", "oi", None):
        user = await house.say_goodbye()
        await house.clock.advance(hours=1)
        if word:
            await house.reply(user, word)
    await house.clock.advance(days=3)
    await house.daily()
    assert await problems(house) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("delete from onceward.messages", "which does not exist"),
        ("delete from engagement.user_engagement_states", "has no state"),
        ("update engagement.user_profiles set reengagement_opt_out = true", "messages do not know it"),
        (
            "update engagement.user_engagement_states set state = 'dormant', goodbye_expires_at = null",
            "the last transition led to goodbye_sent",
        ),
        (
            "update engagement.user_engagement_states set goodbye_expires_at = goodbye_expires_at - interval '10 days'",
            "should be dormant since",
        ),
    ],
)
async def test_damage_is_found(house: House, damage: str, said: str) -> None:
    await house.say_goodbye()
    assert await problems(house) == []
    await house.db.execute(damage)
    assert any(said in problem for problem in await problems(house))


async def test_a_person_known_by_number_is_erased_with_everything(house: House) -> None:
    user, other = await house.say_goodbye(), await house.say_goodbye()
    await house.transact(user)
    number = await house.number_of(user)
    await house.db.execute(
        "insert into onceward.run_items (scope, step, key, run_id, lease, organization_id, outcome)"
        " values (1, 'inactivity_14d', $1::uuid || '/' || $2::uuid, 1, 1, $1, 'failed')",
        house.organization,
        user,
    )
    erasers = [eraser for erasers in ALL.load("erasers") for eraser in erasers]
    report = await erase(house.db, [number, str(user)], erasers, organization=house.organization, actor="test")
    assert report.rows["engagement users"] == 1
    tables = ("user_profiles", "user_engagement_states", "transactions", "transitions")
    for table in tables:
        left = await house.db.fetchval(f"select count(*) from engagement.{table} where user_id = $1", user)
        assert left == 0, table
    assert await house.db.fetchval("select count(*) from onceward.run_items where outcome = 'failed'") == 0
    everything = await house.db.fetch("select recipient, address, data::text from onceward.messages")
    assert not any(number in str(tuple(row)) or str(user) in str(tuple(row)) for row in everything)
    assert await house.state(other) == "goodbye_sent"
    assert await problems(house) == []


async def test_the_simulation_sends_both_messages_and_leaves_no_database(database_url: str, server_url: str) -> None:
    app.use_settings(EngagementSettings(holdout_percent=20))
    simulations = "select count(*) from pg_database where datname like 'onceward_simulation_%'"
    conn = await asyncpg.connect(server_url)
    before = await conn.fetchval(simulations)  # another run on this server may have been killed
    seen: list[str] = []
    tasks = dict(app.registry.tasks)
    first = await simulate(
        database_url, ALL.migrations, days=9, users=20, seed=7, on_day=lambda day: seen.append(day.date)
    )
    assert len(seen) == 9
    assert first.sent["goodbye"] > 0
    assert first.sent["weekly_review"] > 0
    assert all(sum(day.states.values()) == 20 for day in first.days)
    assert await conn.fetchval(simulations) == before
    await conn.close()
    assert app.registry.tasks == tasks, "the app that a process runs keeps its own senders"


Command = Callable[..., Any]


@pytest.fixture
def command(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)

    def call(*words: str) -> Any:
        return CliRunner().invoke(build(ALL), ["engagement", *words])

    return call


async def fill(url: str) -> str:
    from onceward import Engine
    from onceward.db import Database

    app.use_settings(EngagementSettings())
    db = await Database.open(url, min_size=1, max_size=2)
    organization = await db.fetchval(
        "insert into onceward.organizations (slug, name) values ('nexfin', 'NexFin') returning organization_id"
    )
    user = uuid4()
    now = await db.fetchval("select now()")
    async with Engine(db, app.registry).transaction(organization=organization) as tx:
        await activity.save_profile(tx, user, whatsapp_jid="+5511987654321", last_activity_at=now - timedelta(days=30))
    await db.close()
    return str(user)


def test_the_commands_show_who_gets_what_and_why(command: Command, database_url: str) -> None:
    user = asyncio.run(fill(database_url))
    at = ("-o", "nexfin")
    shown = json.loads(command("preview", *at, "--json").stdout)
    assert shown["users"][0]["why"] == "no activity for 30 days"
    assert "goodbye: 1" in command("preview", *at).stdout
    assert "would do nothing" in command("preview", *at, "--job", "weekly").stdout
    assert "The goodbye is due with the next daily run." in command("user", user, *at).stdout
    assert json.loads(command("funnel", *at, "--json").stdout)["total"] == 1
    assert "active" in command("funnel", *at).stdout
    assert "no goodbye is older" in command("returns", *at).stdout
    assert "is opted out" in command("opt-out", user, *at).stdout
    assert "was opted out already" in command("opt-out", user, *at).stdout
    assert "gets no message" in command("user", user, *at).stdout
    assert json.loads(command("user", user, *at, "--json").stdout)["user"]["reengagement_opt_out"]
    assert "is opted in" in command("opt-out", user, *at, "--undo").stdout
    assert "is queued" in command("test-send", "+5511911112222", *at, "--locale", "pt").stdout
    assert command("test-send", "me", *at).exit_code != 0
    assert command("user", str(uuid4()), *at).exit_code != 0


def test_the_simulation_prints_what_would_have_been_sent(command: Command) -> None:
    done = command("simulate", "--days", "2", "--users", "5")
    assert done.exit_code == 0, done.output
    assert "5 users, 2 days" in done.stdout
