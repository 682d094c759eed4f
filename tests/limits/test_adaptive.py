"""The global limit follows the load, within its bounds, once a minute, without swinging."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.limits import AdaptiveLimit, Bounds, LimitReached, Load, decide, note_refusal, reconcile, set_global, want

BOUNDS = Bounds()


@pytest.mark.parametrize(
    ("current", "cpu", "memory", "demand", "wanted"),
    [
        (10, 81, 20, True, 3),
        (10, 20, 95, True, 3),
        (10, 61, 20, True, 5),
        (3, 61, 20, True, 3),
        (10, 50, 50, True, 10),
        (3, 50, 50, True, 3),
        (3, 39, 39, False, 3),
        (3, 39, 39, True, 5),
        (5, 10, 10, True, 10),
        (10, 10, 10, True, 10),
        (3, 39, 41, True, 3),
    ],
)
def test_load_decides_where_the_limit_stands(
    current: int, cpu: float, memory: float, demand: bool, wanted: int
) -> None:
    assert decide(current, Load(cpu, memory, demand), BOUNDS) == wanted


def test_bounds_hold_under_any_load() -> None:
    for current in range(1, 20):
        for cpu in (0, 50, 70, 90):
            assert 4 <= decide(current, Load(cpu, 0, True), Bounds(4, 8)) <= 8


async def test_limit_changes_at_most_once_a_minute_on_all_nodes_together(db: Database) -> None:
    await want(db)
    calm = [AdaptiveLimit(db, measure=lambda: (10.0, 10.0)) for _ in range(2)]
    assert [await node.step() for node in calm] == [5, None]
    assert await calm[0].step() is None
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert [await node.step() for node in calm] == [10, None]
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert await AdaptiveLimit(db, measure=lambda: (90.0, 10.0)).step() == 3
    reason = await db.fetchval("select reason from onceward.limits where name = 'global'")
    assert reason == "cpu 90 %, memory 10 %, more slots wanted"


async def test_refused_requests_raise_the_limit_to_its_burst_and_unrelated_work_does_not(db: Database) -> None:
    """Refused requests leave no work behind: their number is the demand."""
    node = AdaptiveLimit(db, measure=lambda: (2.0, 10.0))
    await db.execute("insert into onceward.work (id, kind, task, queue, sort_at) values (1, 'job', 't', 'q', now())")
    assert await node.step() is None, "due work that needs no slot does not count as demand"
    reached: list[int | None] = []
    for _ in range(3):
        for _ in range(20):
            await note_refusal(db, LimitReached("global", 3, 3))
        reached.append(await node.step())
        await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert reached == [5, 10, None]
    await db.execute("update onceward.limits set at_most = 3, wanted_at = now() - interval '3 minutes'")
    assert await node.step() is None, "old demand does not count"


async def test_the_history_keeps_every_change_with_its_reason(db: Database) -> None:
    await want(db)
    assert await AdaptiveLimit(db, measure=lambda: (10.0, 10.0)).step() == 5
    await set_global(db, 8, actor="test")
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert await AdaptiveLimit(db, measure=lambda: (90.0, 10.0)).step() == 3
    rows = await db.fetch("select before, after, reason from onceward.limit_history('global', 10)")
    assert [tuple(row) for row in rows] == [
        (8, 3, "cpu 90 %, memory 10 %, more slots wanted"),
        (5, 8, "set by an operator"),
        (3, 5, "cpu 10 %, memory 10 %, more slots wanted"),
    ]
    await db.execute("update onceward.limit_changes set changed_at = now() - interval '91 days' where after = 5")
    await reconcile(db)
    assert await db.fetchval("select count(*) from onceward.limit_history('global', 10)") == 2
