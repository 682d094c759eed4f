"""Each clause of the chaos checker finds the bug that it exists for. The histories are made by hand, so nothing runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.chaos.app import LANE_LENGTH, is_poisoned, is_refused
from tools.chaos.checker import CLAUSES, check
from tools.chaos.history import Call, Effect, History, Message, Request

EVENTS = range(6)
UNACKNOWLEDGED = 6  # sent, not answered, and not stored


def sound() -> History:
    """A history in which nothing is wrong: five acknowledged events, one stored without an answer, one lost on its way."""
    history = History(
        capacity=10,
        lane_limit=1,
        slots=1,
        interruptions=1,
        sold=len(EVENTS),
        subscribed=[len(EVENTS)],
        runs=[1000, 1005],
    )
    for n in EVENTS:
        status = None if n == 5 else 200
        history.requests.append(Request(n, "ack", status, 1.0 * n, 1.0 * n + 0.1))
        for kind in ("event", "job", "batch", "reserved", "seat"):
            history.effects.append(Effect(kind, n))
        history.effects.append(Effect("limited", n, started=10 * n, ended=10 * n + 1))
        history.effects.append(Effect("slot_taken", n, ended=10 * n))
        history.effects.append(Effect("slot_freed", n, ended=10 * n + 2))
        history.effects += [Effect("ordered", n, position) for position in range(LANE_LENGTH)]
        history.effects += [Effect("undone", n)] if is_refused(n) else []
        history.poisoned += [n] if is_poisoned(n) else []
        history.calls += [Call("notify", n, f"job:{n}:notify"), Call("charge", n, f"workflow:{n}:charge")]
        history.calls.append(Call("notify", n, f"job:{n}:notify"))  # a repeated call with the same key is allowed
        history.deliveries.append(Call("delivery", n, f"msg_{n}"))
        history.messages.append(Message(n, "unknown" if n == 4 else "success"))
        history.mails += [] if n == 4 else [n]
    history.requests.append(Request(UNACKNOWLEDGED, "ack", 503, 7.0, 7.1))
    history.effects += [Effect("tick", due_s) for due_s in history.runs]
    history.ledger_debits = history.ledger_credits = sum(n + 1 for n in EVENTS)
    return history


def without(history: History, kind: str, n: int) -> None:
    history.effects = [each for each in history.effects if (each.kind, each.ref) != (kind, n)]


def lose_event(history: History) -> None:
    without(history, "event", 1)


def double_unacknowledged(history: History) -> None:
    history.effects.append(Effect("event", 5))


def double_job(history: History) -> None:
    history.effects.append(Effect("batch", 2))


def forget_compensation(history: History) -> None:
    without(history, "undone", 3)


def new_key_at_retry(history: History) -> None:
    history.calls.append(Call("charge", 2, "workflow:2:charge:attempt-2"))


def new_id_at_retry(history: History) -> None:
    history.deliveries.append(Call("delivery", 2, "msg_other"))


def mail_twice(history: History) -> None:
    history.mails.append(2)


def strand_mails(history: History) -> None:
    history.messages = [replace(each, status="unknown") for each in history.messages]
    history.mails = []


def skip_step(history: History) -> None:
    history.gaps.append(17)


def lose_poisoned(history: History) -> None:
    history.poisoned.clear()


def swap_lane(history: History) -> None:
    lane = [each for each in history.effects if (each.kind, each.ref) == ("ordered", 2)]
    without(history, "ordered", 2)
    history.effects += [lane[1], lane[0], lane[2]]


def overlap_in_lane(history: History) -> None:
    history.effects = [
        replace(each, started=10) if (each.kind, each.ref) == ("limited", 2) else each for each in history.effects
    ]


def overlap_of_slots(history: History) -> None:
    history.effects = [
        replace(each, ended=11) if (each.kind, each.ref) == ("slot_taken", 2) else each for each in history.effects
    ]


def sell_too_many(history: History) -> None:
    history.capacity = len(EVENTS) - 1


def post_twice(history: History) -> None:
    history.ledger_debits += 3
    history.ledger_credits += 3


def run_twice(history: History) -> None:
    history.effects.append(Effect("tick", 1000))


def stay_behind(history: History) -> None:
    history.subscribed.append(len(EVENTS) - 1)


def leave_work(history: History) -> None:
    history.unfinished.append("job pack 17")


def end_node(history: History) -> None:
    history.ended_nodes.append("worker-1")


def break_invariant(history: History) -> None:
    history.failed_checks.append("ledger.debits_equal_credits: 1 journal differs")


PLANTED: dict[str, Callable[[History], None]] = {
    "an_acknowledged_event_has_exactly_one_effect": lose_event,
    "an_unacknowledged_event_has_at_most_one_effect": double_unacknowledged,
    "every_caused_job_and_workflow_ran_once": double_job,
    "a_refused_workflow_is_undone_once_and_no_other_is": forget_compensation,
    "calls_of_one_cause_carry_one_key": new_key_at_retry,
    "deliveries_of_one_event_carry_one_id": new_id_at_retry,
    "a_message_is_sent_once_or_unknown": mail_twice,
    "a_message_that_never_left_is_not_unknown": strand_mails,
    "no_workflow_ended_with_a_missing_step": skip_step,
    "a_poisoned_job_is_a_dead_letter": lose_poisoned,
    "an_ordered_lane_keeps_its_order": swap_lane,
    "no_more_jobs_of_a_lane_ran_at_once_than_its_limit": overlap_in_lane,
    "no_more_slots_were_taken_than_there_are": overlap_of_slots,
    "capacity_is_never_exceeded": sell_too_many,
    "the_ledger_has_every_sale_once": post_twice,
    "a_due_time_runs_once": run_twice,
    "subscribers_hold_what_the_database_says": stay_behind,
    "no_work_is_left": leave_work,
    "no_node_ended_by_itself": end_node,
    "onceward_verify_finds_nothing": break_invariant,
}


def test_a_sound_history_has_no_violation() -> None:
    assert check(sound()) == []


def test_every_clause_has_a_planted_bug() -> None:
    assert {clause.__name__ for clause in CLAUSES} == set(PLANTED)


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
def test_the_clause_finds_its_planted_bug(clause: Callable[[History], list[str]]) -> None:
    history = sound()
    PLANTED[clause.__name__](history)
    assert clause(history)
    assert any(problem.startswith(clause.__name__) for problem in check(history))


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (lose_event, "lost: 1 (1)"),
        (lambda history: history.effects.append(Effect("event", 1)), "doubled: 1 (1)"),
    ],
)
def test_the_report_says_what_was_lost_and_what_doubled(plant: Callable[[History], None], text: str) -> None:
    history = sound()
    plant(history)
    assert f"an_acknowledged_event_has_exactly_one_effect: {text}" in check(history)


def test_a_message_that_counts_as_sent_must_have_arrived() -> None:
    history = sound()
    history.mails.remove(2)
    assert check(history) == ["a_message_is_sent_once_or_unknown: message 2 counts as sent and was not received"]


def test_a_saved_history_is_checked_again(tmp_path: Path) -> None:
    history = sound()
    double_job(history)
    history.save(tmp_path / "history.json")
    assert check(History.load(tmp_path / "history.json")) == check(history) != []
