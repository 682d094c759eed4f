"""What a person reads about the next message of a user, and dry runs of every check."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward_apps.engagement.app import EngagementSettings
from onceward_apps.engagement.eligibility import explain, preview
from tests.engagement.house import House

NOW = datetime(2020, 11, 16, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
USER: dict[str, Any] = {
    "user_id": UUID("11111111-2222-4333-8444-555555555555"),
    "state": "active",
    "reengagement_opt_out": False,
    "has_number": True,
    "last_activity_at": NOW - DAY,
    "unreachable_at": None,
    "goodbye_retry_at": None,
    "goodbye_expires_at": NOW + DAY,
    "remind_at": NOW + DAY,
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Without activity the goodbye is due at 2020-11-29 12:00 UTC."),
        ({"last_activity_at": NOW - 20 * DAY}, "The goodbye is due with the next daily run."),
        ({"last_activity_at": NOW - 8 * DAY}, "No activity in 7 days: no weekly review."),
        ({}, "The next weekly review includes the user."),
        ({"unreachable_at": NOW}, "Unreachable: no goodbye until there is new activity or a new number."),
        (
            {"goodbye_retry_at": NOW + DAY},
            "The last goodbye could not be sent; the next try is after 2020-11-17 12:00 UTC.",
        ),
        ({"state": "goodbye_sent"}, "Without an answer the user is dormant at 2020-11-17 12:00 UTC."),
        ({"state": "remind_later"}, "The user answered later: dormant at 2020-11-17 12:00 UTC, without a message."),
        ({"state": "dormant"}, "Dormant users get no messages. Any activity makes the user active again."),
        ({"state": "help_flow"}, "The user asked for help. The next activity makes the user active again."),
        ({"reengagement_opt_out": True}, "The user has opted out and gets no message."),
        ({"has_number": False}, "There is no WhatsApp number, so no message can be sent."),
    ],
)
def test_a_user_is_explained(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in explain({**USER, **changes}, NOW, EngagementSettings())


def test_a_user_without_messages_is_promised_none() -> None:
    for changes in ({"reengagement_opt_out": True}, {"has_number": False}):
        said = explain({**USER, **changes, "last_activity_at": NOW - 20 * DAY}, NOW, EngagementSettings())
        assert not any("due" in sentence or "weekly" in sentence for sentence in said)


@pytest.mark.parametrize("state", ["goodbye_sent", "remind_later"])
def test_a_user_whom_the_runs_skip_is_not_said_to_become_dormant(state: str) -> None:
    said = explain({**USER, "state": state, "reengagement_opt_out": True}, NOW, EngagementSettings())
    assert said == [
        "The user has opted out and gets no message.",
        "The runs skip the user: the state stays as it is until there is activity.",
    ]


async def test_a_dry_run_says_what_the_run_then_does(house: House) -> None:
    await house.source(organization=house.organization)
    refused, silent, later = await house.say_goodbye(), await house.say_goodbye(), await house.say_goodbye()
    await house.reply(later, "later")
    await house.clock.advance(days=14)
    house.whatsapp.unreachable.add(await house.number_of(refused))
    gone = await house.user(inactive=20 * DAY)
    out = await house.user(inactive=20 * DAY, opted_out=True)
    numberless = await house.user(inactive=20 * DAY, number=None)
    await house.db.execute("update onceward.messages set status = 'dead_letter' where recipient = $1", str(refused))
    async with house.acting() as tx:
        seen = {(each.user_id, each.check_type): each async for each in preview(tx, house.organization, "daily")}
    assert {key: each.action for key, each in seen.items()} == {
        (refused, "goodbye_given_up"): "back to active",
        (silent, "goodbye_timeout"): "dormant",
        (later, "reminder_due"): "dormant",
        (gone, "inactivity_14d"): "goodbye",
        (out, "inactivity_14d"): "nothing",
        (numberless, "inactivity_14d"): "nothing",
    }
    await house.daily()
    states = {user: await house.state(user) for user in (refused, silent, later, gone, out, numberless)}
    assert states == {
        refused: "active",
        silent: "dormant",
        later: "dormant",
        gone: "goodbye_sent",
        out: "active",
        numberless: "active",
    }
