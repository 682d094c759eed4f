"""What people write moves their state; what they do makes them active at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward_apps.engagement import set_opt_out
from onceward_apps.engagement.app import EngagementSettings
from tests.engagement.house import House, values

HOUR = timedelta(hours=1)


@pytest.fixture
async def house(house: House) -> House:
    await house.source(organization=house.organization)
    return house


async def test_help_leads_to_the_help_flow_and_tells_the_team(house: House) -> None:
    user = await house.say_goodbye()
    assert (
        await house.reply(user, {"type": "button", "button": {"payload": "help", "text": "Preciso de ajuda"}}) == "help"
    )
    assert await house.state(user) == "help_flow"
    notice = await house.db.fetchrow("select type, details from onceward.notices where type like 'engagement%'")
    assert (notice["type"], notice["details"]) == ("engagement.help_requested", {"user_id": str(user)})
    published = await house.db.fetchrow("select type, organization_id from onceward.published")
    assert values(published) == ("engagement.help_requested", house.organization)
    await house.clock.advance(hours=1)
    await house.active(user)
    assert await house.state(user) == "active"


async def test_later_waits_in_silence_and_a_second_later_changes_nothing(house: House) -> None:
    user = await house.say_goodbye()
    choice = {
        "type": "interactive",
        "interactive": {"type": "button_reply", "button_reply": {"id": "later", "title": "Depois"}},
    }
    assert await house.reply(user, choice) == "later"
    before = await house.row(user)
    await house.clock.advance(hours=1)
    assert await house.reply(user, "LATER") == "repeated"
    assert await house.row(user) == before
    assert len(await house.queue(user)) == 1


async def test_stop_opts_out_in_every_state_and_nothing_is_ever_sent_again(house: House) -> None:
    for state in ("active", "goodbye_sent", "dormant"):
        user = await house.user() if state == "active" else await house.say_goodbye()
        if state == "dormant":
            await house.clock.advance(hours=48)
            await house.daily()
        assert await house.state(user) == state
        assert await house.reply(user, "parar") == "stop"
        row = await house.row(user)
        assert (row["state"], row["reengagement_opt_out"]) == ("dormant", True)
        assert await house.reply(user, "parar") == "repeated"
        messages = len(await house.queue(user))
        await house.clock.advance(hours=1)
        await house.active(user)
        row = await house.row(user)
        assert (row["state"], row["reengagement_opt_out"]) == ("active", True)  # active again, still opted out
        await house.weekly()
        await house.clock.advance(days=20)
        await house.daily()
        assert len(await house.queue(user)) == messages


async def test_stop_cancels_what_is_queued(house: House) -> None:
    user = await house.user(inactive=timedelta(days=14))
    await house.daily()
    async with house.acting() as tx:
        await set_opt_out(tx, user, True)
    await house.drain()
    assert [(each["status"], each["error_message"]) for each in await house.queue(user)] == [("cancelled", "opted_out")]
    assert house.whatsapp.messages == []
    report = await house.daily()  # the goodbye was not sent, because the user opted out: no failure
    assert (report.failed, report.succeeded) == (0, 0)
    assert await house.state(user) == "active"


async def test_any_other_text_is_activity(house: House) -> None:
    user = await house.say_goodbye()
    await house.clock.advance(hours=1)
    assert await house.reply(user, "Oi, tudo bem?") == "activity"
    row = await house.row(user)
    assert (row["state"], row["last_activity_at"]) == ("active", house.clock.at.replace(microsecond=0))


async def test_a_reply_after_dormant_is_activity(house: House) -> None:
    user = await house.say_goodbye()
    await house.clock.advance(hours=48)
    await house.daily()
    assert await house.state(user) == "dormant"
    await house.clock.advance(hours=1)
    assert await house.reply(user, "ajuda") == "activity"
    assert await house.state(user) == "active"


async def test_the_same_webhook_twice_acts_once(house: House) -> None:
    user = await house.say_goodbye()
    message = {"id": f"wamid.{uuid4().hex}"}
    assert await house.reply(user, "help", **message) == "help"
    await house.reply(user, "help", **message)
    assert await house.db.fetchval("select count(*) from onceward.published") == 1
    assert (await house.transitions(user))[1:] == [("goodbye_sent", "help_flow", "reply_help")]


async def test_activity_cancels_a_goodbye_that_is_still_queued(house: House) -> None:
    user = await house.user(inactive=timedelta(days=14))
    await house.daily()
    await house.clock.advance(minutes=1)
    done = await house.transact(user)
    assert done.became_active == (user,)
    await house.drain()
    [message] = await house.queue(user)
    assert (message["status"], message["error_message"]) == ("cancelled", "activity")
    assert house.whatsapp.messages == []


async def test_a_reply_opens_the_window_for_free_text(house: House) -> None:
    user = await house.user(locale="pt-BR")
    await house.reply(user, "oi")
    await house.weekly()
    await house.drain()
    [sent] = house.whatsapp.messages
    assert sent["type"] == "text"
    assert sent["text"]["body"] == "Você passou por aqui esta semana. Que bom ver você!"


@pytest.mark.parametrize("content", [{"type": "image", "image": {"id": "1"}}, {"type": "audio", "audio": {"id": "1"}}])
async def test_a_picture_is_activity(house: House, content: dict[str, Any]) -> None:
    user = await house.say_goodbye()
    await house.clock.advance(hours=1)
    assert await house.reply(user, content) == "activity"


async def test_an_unknown_number_changes_nothing(house: House) -> None:
    assert await house.reply("+4915112345678", "stop") == "unknown_number"
    assert await house.reply("12", "stop") == "unknown_number"


async def test_a_number_that_two_users_share_stops_for_both(house: House) -> None:
    first = await house.user(number="+5511911112222")
    second = await house.user(number="5511911112222@s.whatsapp.net")
    assert await house.reply("551111112222", "stop") == "stop"  # without the ninth digit
    assert {(await house.row(user))["reengagement_opt_out"] for user in (first, second)} == {True}


async def test_messages_to_another_number_of_the_account_are_not_ours_except_stop(house: House) -> None:
    house.app.use_settings(EngagementSettings(phone_number_ids="999, 888"))
    user = await house.say_goodbye()
    await house.clock.advance(hours=1)
    assert await house.reply(user, "help") == "not_ours"
    assert await house.reply(user, "hello") == "not_ours"
    assert (await house.row(user))["state"] == "goodbye_sent"
    house.app.use_settings(EngagementSettings(phone_number_ids="999, 100200300"))
    assert await house.reply(user, "help") == "help"
    house.app.use_settings(EngagementSettings(phone_number_ids="999, 888"))
    assert await house.reply(user, "stop") == "stop"
    assert (await house.row(user))["reengagement_opt_out"]


# -- activity in the wrong order, from the future, of nobody ------------------------------------------------------------


async def test_activity_from_the_future_counts_as_now(house: House) -> None:
    user = await house.say_goodbye()
    await house.active(user, ago=timedelta(days=-30))
    row = await house.row(user)
    assert (row["state"], row["last_activity_at"]) == ("active", house.clock.at)


async def test_late_news_of_old_activity_does_not_move_time_back(house: House) -> None:
    user = await house.user(inactive=timedelta(days=2))
    await house.active(user, ago=timedelta(days=10))
    assert (await house.row(user))["last_activity_at"] == house.clock.at - timedelta(days=2)


async def test_late_news_of_activity_wakes_only_if_it_is_recent(house: House) -> None:
    old, recent = await house.say_goodbye(), await house.say_goodbye()
    await house.active(old, ago=timedelta(days=14, hours=1))
    await house.active(recent, ago=timedelta(days=3))
    assert await house.state(old) == "goodbye_sent"
    row = await house.row(recent)
    assert (row["state"], row["last_activity_at"]) == ("active", house.clock.at - timedelta(days=3))


async def test_activity_before_an_answer_does_not_undo_the_answer(house: House) -> None:
    user = await house.say_goodbye()
    await house.reply(user, "later")
    await house.clock.advance(hours=2)
    await house.active(user, ago=timedelta(hours=3))
    assert await house.state(user) == "remind_later"
    await house.active(user, ago=HOUR)
    assert await house.state(user) == "active"


async def test_unknown_users_are_named_and_the_others_are_recorded(house: House) -> None:
    user, stranger = await house.user(inactive=timedelta(days=3)), uuid4()
    from onceward_apps.engagement.activity import Activity, Transaction, record_activity, record_transactions

    async with house.acting() as tx:
        done = await record_activity(
            tx, [Activity(user_id=each, at=house.clock.at) for each in (user, stranger, stranger)]
        )
        paid = await record_transactions(
            tx, [Transaction(user_id=each, created_at=house.clock.at) for each in (user, stranger)]
        )
    assert (done.recorded, done.unknown) == (1, (stranger,))
    assert (paid.recorded, paid.unknown) == (1, (stranger,))


async def test_the_same_transaction_twice_is_one(house: House) -> None:
    from onceward_apps.engagement.activity import Transaction, record_transactions

    user, id = await house.user(), uuid4()
    recorded: list[int] = []
    for _ in range(2):
        async with house.acting() as tx:
            done = await record_transactions(tx, [Transaction(id=id, user_id=user, created_at=house.clock.at)])
        recorded.append(done.recorded)
    assert recorded == [1, 0]
    assert await house.db.fetchval("select count(*) from engagement.transactions") == 1


@pytest.mark.acceptance("002-H holes")
@pytest.mark.parametrize("kind", ["video", "sticker", "document", "location", "contacts", "reaction"])
async def test_whatever_a_person_sends_is_an_answer(house: House, kind: str) -> None:
    user = await house.say_goodbye()
    content: dict[str, Any] = {"contacts": []} if kind == "contacts" else {kind: {"id": "1"}}
    assert await house.reply(user, {"type": kind, **content}) == "activity"
    assert await house.state(user) == "active"
