"""The daily run, criterion by criterion (AC-5.1) and scenario by scenario."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onceward_apps.engagement.store import views
from tests.engagement.house import House, counts

DAYS_13 = timedelta(days=13)
DAYS_14 = timedelta(days=14)


@pytest.mark.acceptance("AC-5.1.1", "daily-2")
async def test_ac_5_1_1_a_user_inactive_for_14_days_gets_one_goodbye(house: House) -> None:
    user = await house.user(inactive=DAYS_14)
    report = await house.daily()
    assert counts(report) == (1, 1, 0, 0)
    row = await house.row(user)
    assert row["state"] == "goodbye_sent"
    assert row["goodbye_sent_at"] == house.clock.at
    assert row["goodbye_expires_at"] == house.clock.at + timedelta(hours=48)
    [message] = await house.queue(user)
    assert message["message_type"] == "goodbye"
    assert message["message_key"] == "engagement.goodbye.self_select"
    assert message["idempotency_key"] == f"{user}:goodbye_sent:2020-11-16"
    assert (message["status"], message["destination"], message["retry_count"]) == ("pending", "individual", 0)
    assert message["destination_jid"] == await house.number_of(user)
    assert await house.transitions(user) == [("active", "goodbye_sent", "inactivity_14d")]


@pytest.mark.acceptance("daily-1")
async def test_daily_1_a_user_inactive_for_13_days_is_left_alone(house: House) -> None:
    user = await house.user(inactive=DAYS_13)
    almost = await house.user(inactive=DAYS_14 - timedelta(seconds=1))
    assert counts(await house.daily()) == (0, 0, 0, 0)
    assert await house.state(user) == await house.state(almost) == "active"
    assert await house.queue() == []


@pytest.mark.acceptance("daily-3")
async def test_daily_3_a_user_with_a_goodbye_of_yesterday_gets_no_second_one(house: House) -> None:
    user = await house.user(inactive=DAYS_14)
    await house.daily()
    await house.drain()
    await house.clock.advance(days=1)
    await house.daily()
    assert len(await house.queue(user)) == 1
    assert await house.state(user) == "goodbye_sent"


@pytest.mark.acceptance("AC-5.1.2", "daily-6")
async def test_ac_5_1_2_a_goodbye_without_an_answer_for_48_hours_makes_dormant_in_silence(house: House) -> None:
    user = await house.say_goodbye()
    await house.clock.advance(hours=48)
    assert counts(await house.daily()) == (1, 1, 0, 0)
    row = await house.row(user)
    assert (row["state"], row["goodbye_expires_at"]) == ("dormant", None)
    assert len(await house.queue(user)) == 1  # the goodbye itself
    assert (await house.transitions(user))[-1] == ("goodbye_sent", "dormant", "goodbye_timeout")


@pytest.mark.acceptance("daily-5")
async def test_daily_5_a_goodbye_47_hours_old_still_waits(house: House) -> None:
    user = await house.say_goodbye()
    await house.clock.advance(hours=47)
    assert counts(await house.daily()) == (0, 0, 0, 0)
    assert await house.state(user) == "goodbye_sent"


@pytest.mark.acceptance("AC-5.1.3")
async def test_ac_5_1_3_a_due_reminder_makes_dormant_in_silence(house: House) -> None:
    await house.source(organization=house.organization)
    user = await house.say_goodbye()
    assert await house.reply(user, "depois") == "later"
    assert (await house.row(user))["remind_at"] == house.clock.at + timedelta(days=14)
    await house.clock.advance(days=14, seconds=-1)
    await house.daily()
    assert await house.state(user) == "remind_later"
    await house.clock.advance(seconds=1)
    assert counts(await house.daily()) == (1, 1, 0, 0)
    row = await house.row(user)
    assert (row["state"], row["remind_at"]) == ("dormant", None)
    assert len(await house.queue(user)) == 1


@pytest.mark.acceptance("AC-5.1.4", "daily-4")
async def test_ac_5_1_4_opted_out_users_are_counted_as_skipped_in_all_three_checks(house: House) -> None:
    await house.source(organization=house.organization)
    waiting = await house.say_goodbye()
    reminded = await house.say_goodbye()
    await house.reply(reminded, "later")
    await house.clock.advance(days=14)
    inactive = await house.user(inactive=timedelta(days=20))
    before = {user: await house.row(user) for user in (waiting, reminded, inactive)}
    from onceward_apps.engagement import set_opt_out

    async with house.acting() as tx:
        for user in before:
            await set_opt_out(tx, user, True)
    messages = len(await house.queue())
    assert counts(await house.daily()) == (3, 0, 0, 3)
    for user, row in before.items():
        assert (await house.row(user))["state"] == row["state"]
    assert len(await house.queue()) == messages


@pytest.mark.acceptance("daily-7")
async def test_daily_7_one_failing_user_does_not_stop_the_others(house: House) -> None:
    users = [await house.user(inactive=DAYS_14) for _ in range(9)]
    broken = users[4]
    await house.db.execute(
        f"create function refuse() returns trigger language plpgsql as $$begin if new.user_id = '{broken}' then"
        " raise exception 'this row is broken'; end if; return new; end$$;"
        " create trigger refuse before update on engagement.user_engagement_states for each row execute function refuse()"
    )
    report = await house.daily()
    assert counts(report) == (9, 8, 1, 0)
    assert await house.state(broken) == "active"
    assert {await house.state(user) for user in users if user != broken} == {"goodbye_sent"}
    assert len(await house.queue()) == 8
    result = await house.db.fetchval("select result from onceward.runs where id = $1", report.id)
    [error] = result["errors"]
    assert (error["user_id"], error["check_type"]) == (str(broken), "inactivity_14d")
    assert "this row is broken" in error["error"]
    async with house.acting() as tx:
        [run] = await views.runs(tx, house.organization)
        assert (run["succeeded"], run["failed"], run["checks"]["inactivity_14d"]["failed"]) == (8, 1, 1)
        [listed] = run["errors"]
        assert (listed["user_id"], listed["error"]) == (broken, error["error"])
        [own] = await views.user_errors(tx, house.organization, broken)
        assert own["error"] == error["error"]
    async with house.acting(await house.add_organization("other")) as tx:
        assert await tx.fetchval("select count(*) from onceward.run_items") == 0
        assert await tx.fetchval("select count(*) from onceward.run_parts") == 0
