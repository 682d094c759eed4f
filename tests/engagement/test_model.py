"""The rules as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from onceward_apps.engagement.model import (
    STATES,
    TRIGGERS,
    goodbye_key,
    held_out,
    iso_week,
    reply_trigger,
    route,
    sources,
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


def test_a_group_falls_back_to_the_person() -> None:
    assert (route("group").destination, route("group").instead_of) == ("individual", "group")
    assert route("group", groups=True).destination == "group"
    assert route("individual").instead_of is None
