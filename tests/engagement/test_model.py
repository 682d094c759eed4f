"""The rules as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward_apps.engagement.model import (
    STATES,
    TRIGGERS,
    BadNumber,
    goodbye_key,
    held_out,
    iso_week,
    normalize_number,
    read_reply,
    reply_trigger,
    route,
    sources,
    spellings,
    transition,
)

USER = UUID("11111111-2222-4333-8444-555555555555")


def test_the_whole_table_of_transitions() -> None:
    table = {
        (state, trigger): transition(state, trigger)
        for state in STATES
        for trigger in TRIGGERS
        if transition(state, trigger) is not None
    }
    assert table == {
        ("active", "inactivity_14d"): "goodbye_sent",
        ("active", "reply_stop"): "dormant",
        ("goodbye_sent", "goodbye_timeout"): "dormant",
        ("goodbye_sent", "goodbye_given_up"): "active",
        ("goodbye_sent", "activity"): "active",
        ("goodbye_sent", "reply_help"): "help_flow",
        ("goodbye_sent", "reply_later"): "remind_later",
        ("goodbye_sent", "reply_stop"): "dormant",
        ("remind_later", "reminder_due"): "dormant",
        ("remind_later", "activity"): "active",
        ("remind_later", "reply_stop"): "dormant",
        ("dormant", "activity"): "active",
        ("help_flow", "activity"): "active",
        ("help_flow", "reply_stop"): "dormant",
    }


@given(st.lists(st.sampled_from(TRIGGERS), max_size=30))
def test_every_sequence_of_triggers_ends_in_a_state_and_activity_always_leads_back(triggers: list) -> None:
    state = "active"
    for trigger in triggers:
        state = transition(state, trigger) or state
        assert state in STATES
    assert (transition(state, "activity") or state) == "active"


def test_each_trigger_has_one_target() -> None:
    for trigger in TRIGGERS:
        assert len({transition(state, trigger) for state in sources(trigger)}) == 1


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("help", "help"),
        ("HELP!", "help"),
        (" Ajuda ", "help"),
        ("later", "later"),
        ("Depois.", "later"),
        ("mais  tarde", "later"),
        ("STOP", "stop"),
        ("Pârár", "stop"),
        ("please stop it", None),
        ("helpless", None),
        ("", None),
        ("👍", None),
        ("ok\x00", None),
    ],
)
def test_a_reply_is_an_exact_word_in_either_language(text: str, reply: str | None) -> None:
    assert read_reply(text) == reply


def test_help_and_later_act_only_after_a_goodbye_and_stop_always() -> None:
    for state in STATES:
        assert reply_trigger(state, "stop") == "reply_stop"
        assert reply_trigger(state, None) == "activity"
    assert reply_trigger("goodbye_sent", "help") == "reply_help"
    assert reply_trigger("goodbye_sent", "later") == "reply_later"
    assert reply_trigger("help_flow", "help") is None
    assert reply_trigger("remind_later", "later") is None
    assert reply_trigger("dormant", "help") == reply_trigger("active", "later") == "activity"


def test_days_and_weeks_are_utc() -> None:
    assert goodbye_key(USER, datetime.fromisoformat("2026-11-15T22:30:00-03:00")) == f"{USER}:goodbye_sent:2026-11-16"
    assert iso_week(datetime.fromisoformat("2026-11-15T22:30:00-03:00")) == "2026-W47"
    assert iso_week(datetime(2027, 1, 1, tzinfo=UTC)) == "2026-W53"
    assert iso_week(datetime(2024, 12, 30, tzinfo=UTC)) == "2025-W01"


def test_the_holdout_group_is_stable_and_about_as_large_as_asked() -> None:
    users = [uuid4() for _ in range(4000)]
    chosen = [user for user in users if held_out(user, 10)]
    assert 300 < len(chosen) < 500
    assert all(held_out(user, 10) for user in chosen)
    assert all(held_out(user, 20) for user in chosen)
    assert not any(held_out(user, 0) for user in users)


@pytest.mark.parametrize(
    "text",
    [
        "+5511987654321",
        "5511987654321",
        "5511987654321@s.whatsapp.net",
        "5511987654321:12@s.whatsapp.net",
        "+55 (11) 98765-4321",
    ],
)
def test_a_number_in_five_spellings_is_one_number(text: str) -> None:
    assert normalize_number(text) == "+5511987654321"


@pytest.mark.parametrize("text", ["", "123", "0119876543", "12036304@g.us", "+55 11 abc", "٥٥١١٩٨٧٦٥٤", "1" * 16])
def test_a_text_that_is_not_a_phone_number_is_refused(text: str) -> None:
    with pytest.raises(BadNumber):
        normalize_number(text)


def test_whatsapp_may_omit_the_ninth_digit_of_a_brazilian_number() -> None:
    assert set(spellings("+551187654321")) == set(spellings("+5511987654321")) == {"+5511987654321", "+551187654321"}
    assert spellings("+4930123456") == ["+4930123456"]


def test_a_group_falls_back_to_the_person() -> None:
    assert (route("group").destination, route("group").instead_of) == ("individual", "group")
    assert route("group", groups=True).destination == "group"
    assert route("individual").instead_of is None
