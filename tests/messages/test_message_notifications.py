"""One thing over several channels, its results together; alarms that come in storms and go out as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onceward.messages import (
    Audiences,
    InvalidNotification,
    Notification,
    Notifier,
    Recipient,
    SlackChannels,
    notify,
)
from onceward.messages.notifications import show

SLACK = SlackChannels({"cohort.started": "#cohorts"}, "#general")


async def say(here, **changes) -> int:
    given = {
        "type": "cohort.started",
        "severity": "warning",
        "recipients": [Recipient(ref="u1", email="ada@example.org", phone="+4915112345678")],
        "channels": ["email", "slack", "sms"],
        "title": "It begins",
        "body": "x" * 300,
        **changes,
    }
    async with here.engine.transaction() as tx:
        done = await notify(tx, here.engine.templates, Notification(**given), slack=SLACK, waker=here.engine.waker)
        return done.id


async def until_finished(here, id: int, timeout_s: float = 15) -> dict[str, Any]:
    async with asyncio.timeout(timeout_s):
        while (found := await show(here.db, id)) is None or found["finished_at"] is None:
            await asyncio.sleep(0.02)
    return found


async def test_all_channels_are_used_and_their_results_counted(office, wires) -> None:
    here = await office(wires.brevo, wires.slack, wires.sms)
    await here.start_worker()
    found = await until_finished(here, await say(here))
    assert (found["success"], found["sent"], found["failed"], found["severity"]) == (True, 3, 0, "warn")
    assert here.sims.slack.messages[0]["channel"] == "#cohorts"
    assert len(here.sims.twilio.messages[0]["body"]) == 160
    assert len(here.sims.brevo.mails) == 1


async def test_a_failed_channel_is_tried_once_more_after_five_minutes(office, wires) -> None:
    here = await office(wires.brevo, wires.slack)
    here.sims.slack.archived.add("#cohorts")
    await here.start_worker()
    id = await say(here, channels=["email", "slack"])
    async with asyncio.timeout(10):
        while (found := await show(here.db, id))["round"] == 1:
            await asyncio.sleep(0.02)
    assert (found["sent"], found["remaining"], found["success"]) == (1, 1, None)
    wait = await here.db.fetchval("select sort_at - onceward.now() from onceward.work where kind = 'message'")
    assert 280 < wait.total_seconds() <= 300
    assert await here.db.fetchval("select count(*) from onceward.notices") == 0
    here.sims.slack.archived.clear()
    await here.db.execute("update onceward.work set sort_at = onceward.now()")
    found = await until_finished(here, id)
    assert (found["success"], found["sent"], found["failed"], found["round"]) == (True, 2, 0, 2)
    assert len(here.sims.brevo.mails) == 1


async def test_the_second_failure_is_final_and_reported(office, wires) -> None:
    here = await office(wires.slack)
    here.sims.slack.archived.add("#cohorts")
    await here.start_worker()
    id = await say(here, channels=["slack"], recipients=[])
    async with asyncio.timeout(10):
        while (await show(here.db, id))["round"] == 1:
            await asyncio.sleep(0.02)
    await here.db.execute("update onceward.work set sort_at = onceward.now()")
    found = await until_finished(here, id)
    assert (found["success"], found["failed"]) == (False, 1)
    assert found["details"][0]["status"] == "failed"
    assert await here.db.fetchval("select count(*) from onceward.notices where type = 'DEAD_LETTER'") == 1


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"type": ""}, "type"),
        ({"recipients": []}, "recipients"),
        ({"channels": []}, "channels"),
        ({"channels": ["pigeon"]}, "pigeon"),
        ({"title": ""}, "title"),
    ],
)
def test_what_is_missing_is_named(changes: dict, named: str) -> None:
    given = {"type": "t", "recipients": ["a@b.c"], "channels": ["email"], "title": "x", **changes}
    with pytest.raises(InvalidNotification, match=named):
        Notification(**given)


async def test_a_storm_of_dead_letters_sends_one_message(office, wires) -> None:
    here = await office(wires.smtp, wires.slack, wires.dashboard)

    def notifier() -> Notifier:
        return Notifier(
            here.db,
            here.engine.templates,
            audiences=Audiences(admin=["ops@example.org"]),
            slack=SlackChannels(default="#ops"),
            gather_s=0,
        )

    await here.start_worker()
    await here.db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at)"
        " select nextval('onceward.ids'), 'job', 'invoice', 'none', now() from generate_series(1, 3000)"
    )
    await here.db.execute("update onceward.work set dead_reason = 'timeout', dead_at = now()")
    assert sum(await asyncio.gather(*(notifier().step() for _ in range(4)))) == 1
    await here.db.execute(
        "with w as (insert into onceward.work (id, kind, task, queue, sort_at)"
        " values (nextval('onceward.ids'), 'job', 'invoice', 'none', now()) returning id) select 1 from w"
    )
    await here.db.execute(
        "update onceward.work set dead_reason = 'timeout', dead_at = now() where dead_reason is null and task = 'invoice'"
    )
    assert await notifier().step() == 0
    rows = await here.db.fetch("select id, channel from onceward.messages order by channel")
    assert [row["channel"] for row in rows] == ["dashboard", "email", "slack"]
    for row in rows:
        assert (await here.until(row["id"]))["status"] == "success"
    [mail] = here.sims.smtp.mails
    assert "3000 notices" in mail.message.get_body(("plain",)).get_content()
    assert mail.message["Subject"] == "[FATAL] Dead letter: invoice (and 2999 more)"
    assert await here.db.fetchval("select count(*) from onceward.dashboard_messages where recipient = 'admins'") == 1


async def test_administrators_are_notified_if_and_only_if_the_transaction_commits(office) -> None:
    here = await office()
    with pytest.raises(KeyError):
        async with here.engine.transaction() as tx:
            await tx.notify_admins("X", "HIGH", "never")
            raise KeyError
    async with here.engine.transaction() as tx:
        await tx.notify_admins("SEAT_CONFLICT", "CRITICAL", "Seat sold twice", {"seat": "A12"}, ["email"])
    rows = await here.db.fetch("select type, severity, channels, details from onceward.notices")
    assert [tuple(row) for row in rows] == [("SEAT_CONFLICT", "fatal", ["email"], {"seat": "A12"})]
