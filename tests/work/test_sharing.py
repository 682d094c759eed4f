"""How many handlers share a commit follows from what their tasks did before."""

from __future__ import annotations

import pytest

from onceward.db.statement_watch import Watch
from onceward.work import commit_sharing
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import MOST, WORTH, Experience, Member, Sharing
from onceward.work.task import Task


async def run(_work: object, _tx: object) -> None: ...


def member(task: Task, id: int = 1, *, attempts: int = 0, crashes: int = 0) -> Member:
    return Member(task, Claimed(1, id, "job", task.name, None, attempts, crashes), watch=Watch(others=False))


TASK = Task(name="t", run=run, transactional=True)


def test_a_task_that_fails_often_shares_less_and_recovers() -> None:
    known = Experience("task")
    assert known.most == MOST
    known.ended(failed=True)
    assert 2 < known.most < MOST
    for _ in range(200):
        known.ended(failed=True)
    assert known.most == 1
    for _ in range(1000):
        known.ended(failed=False)
    assert known.most == MOST


def test_locks_halve_groups_which_grow_again_after_a_pause_that_doubles() -> None:
    known = Experience("task")
    known.met_a_lock(0.0)
    assert known.most == MOST // 2
    known.committed(0.9)
    assert known.most == MOST // 2
    known.committed(1.1)
    assert known.most == MOST // 2 + 1
    for at in range(10):
        known.met_a_lock(float(at))
    assert known.most == 1
    known.committed(30.0)
    assert known.most == 1
    for _ in range(MOST):
        known.committed(100.0)
    assert known.most == MOST


@pytest.mark.parametrize(
    ("mean_s", "members", "age_s", "fits"),
    [
        (None, 1, 0.0, False),  # never measured
        (0.0001, 1, 0.005, True),
        (0.0001, WORTH, 0.009, True),
        (0.0001, WORTH, 0.02, False),  # large and old
        (0.002, WORTH - 1, 0.02, True),  # small: the machine is busy
        (0.01, 2, 0.045, False),
        (0.03, 1, 0.0, False),  # slow
    ],
)
def test_a_group_ends_by_its_age_and_slow_tasks_share_nothing(
    monkeypatch: pytest.MonkeyPatch, mean_s: float | None, members: int, age_s: float, fits: bool
) -> None:
    monkeypatch.setattr(commit_sharing.time, "monotonic", lambda: 100.0)
    shared = Sharing()
    shared.of(TASK).mean_s = mean_s
    group = [member(TASK, id) for id in range(1, members + 1)]
    assert shared.fits(group, TASK, member(TASK, 99).work, since=100.0 - age_s) is fits


def test_what_may_join_a_group() -> None:
    shared = Sharing(learns=False)
    group = [member(TASK)]
    assert shared.fits(group, TASK, member(TASK, 2).work, since=0)
    assert not shared.fits(group, TASK, member(TASK, 2, attempts=1).work, since=0)
    assert not shared.fits(group, TASK, member(TASK, 2, crashes=2).work, since=0)
    assert not shared.fits(group, TASK, Claimed(1, 2, "event", "t"), since=0)
    assert not shared.fits([member(TASK, crashes=2)], TASK, member(TASK, 2).work, since=0)
    for options in ({"shared": False}, {"outside": True}, {"batch": 2}, {"timeout_s": None}, {"timeout_s": 300.0}):
        other = Task(**{"name": "o", "run": run, "transactional": True, **options})
        assert not other.shares
        assert not shared.fits(group, other, member(other, 2).work, since=0)
    assert not Task(name="p", run=run).shares
    group[-1].watch.look("set local x.y = 1")  # pyright: ignore[reportOptionalMemberAccess]
    assert not shared.fits(group, TASK, member(TASK, 2).work, since=0)
