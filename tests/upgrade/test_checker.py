"""Each clause of the checker of upgrades finds the bug that it is there for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.upgrade.checker import KINDS, Observation, problems
from tools.upgrade.load import Answer


def good() -> Observation:
    """Ten events, half of them handled by each release; the last one was not acknowledged and had no effect."""
    seen = Observation(answers=[Answer(n, 200, False, 0.01) for n in range(9)])
    seen.answers += [Answer(9, 503, True, 0.01), Answer(9, None, False, 0.01), Answer(3, 200, False, 0.01)]
    seen.effects = [(kind, n, 1 + n % 2) for n in range(9) for kind in KINDS]
    seen.calls = [(n, f"job:{n}:notify") for n in range(9)]
    return seen


def lose_a_job(seen: Observation) -> None:
    seen.effects.remove(("job", 4, 1))


def double_an_effect(seen: Observation) -> None:
    seen.effects.append(("event", 4, 2))


def double_an_unacknowledged_effect(seen: Observation) -> None:
    seen.effects += [("event", 9, 1), ("event", 9, 2)]


def lose_a_call(seen: Observation) -> None:
    seen.calls.remove((4, "job:4:notify"))


def repeat_a_call_with_another_key(seen: Observation) -> None:
    seen.calls.append((4, "job:400:notify"))


def answer_with_500(seen: Observation) -> None:
    seen.answers.append(Answer(4, 500, False, 0.01))


def answer_with_503_only(seen: Observation) -> None:
    seen.answers.append(Answer(4, 503, False, 0.01))


def acknowledge_nothing(seen: Observation) -> None:
    seen.answers = []


def never_use_the_new_release(seen: Observation) -> None:
    seen.effects = [(kind, n, 1) for kind, n, _ in seen.effects]


def leave_work(seen: Observation) -> None:
    seen.unfinished = 1


def bury_work(seen: Observation) -> None:
    seen.dead_letters = 1


def end_by_itself(seen: Observation) -> None:
    seen.endings.append("web-0: the old version ended by itself with 5")


def fail_to_verify(seen: Observation) -> None:
    seen.failed_commands.append("verify ended with 1")


BUGS: dict[Callable[[Observation], None], str] = {
    lose_a_job: "1 acknowledged events have no effect 'job', the first is 4",
    double_an_effect: "1 effects happened more than once",
    double_an_unacknowledged_effect: "1 effects happened more than once",
    lose_a_call: "1 acknowledged events caused no call",
    repeat_a_call_with_another_key: "1 events caused calls with different keys",
    answer_with_500: "1 requests were answered with 500",
    answer_with_503_only: "1 requests were answered with 503 without Retry-After",
    acknowledge_nothing: "no webhook was acknowledged",
    never_use_the_new_release: "release 2 of the app caused no effect",
    leave_work: "1 pieces of work are unfinished",
    bury_work: "1 dead letters",
    end_by_itself: "ended by itself",
    fail_to_verify: "verify ended with 1",
}


def test_a_good_upgrade_has_no_problem() -> None:
    assert problems(good()) == []


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_checker_finds_a_planted_bug(plant: Callable[[Observation], None]) -> None:
    seen = good()
    plant(seen)
    assert any(BUGS[plant] in problem for problem in problems(seen))
