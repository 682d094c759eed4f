"""The global limit follows the load, within its bounds, once a minute, without swinging."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.limits import AdaptiveLimit, Bounds, Load, decide, reconcile, set_global

BOUNDS = Bounds()


@pytest.mark.parametrize(
    ("current", "cpu", "memory", "backlog", "wanted"),
    [
        (10, 81, 20, 99, 3),
        (10, 20, 95, 99, 3),
        (10, 61, 20, 99, 5),
        (3, 61, 20, 99, 3),
        (10, 50, 50, 99, 10),
        (3, 50, 50, 99, 3),
        (3, 39, 39, 0, 3),
        (3, 39, 39, 1, 5),
        (5, 10, 10, 1, 10),
        (10, 10, 10, 1, 10),
        (3, 39, 41, 1, 3),
    ],
)
def test_load_decides_where_the_limit_stands(
    current: int, cpu: float, memory: float, backlog: int, wanted: int
) -> None:
    assert decide(current, Load(cpu, memory, backlog), BOUNDS) == wanted


def test_bounds_hold_under_any_load() -> None:
    for current in range(1, 20):
        for cpu in (0, 50, 70, 90):
            assert 4 <= decide(current, Load(cpu, 0, 1), Bounds(4, 8)) <= 8


async def test_limit_changes_at_most_once_a_minute_on_all_nodes_together(db: Database) -> None:
    await db.execute("insert into onceward.work (id, kind, task, queue, sort_at) values (1, 'job', 't', 'q', now())")
    calm = [AdaptiveLimit(db, measure=lambda: (10.0, 10.0)) for _ in range(2)]
    assert [await node.step() for node in calm] == [5, None]
    assert await calm[0].step() is None
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert [await node.step() for node in calm] == [10, None]
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert await AdaptiveLimit(db, measure=lambda: (90.0, 10.0)).step() == 3
    reason = await db.fetchval("select reason from onceward.limits where name = 'global'")
    assert reason == "cpu 90 %, memory 10 %, 1 due"


async def test_the_history_keeps_every_change_with_its_reason(db: Database) -> None:
    await db.execute("insert into onceward.work (id, kind, task, queue, sort_at) values (1, 'job', 't', 'q', now())")
    assert await AdaptiveLimit(db, measure=lambda: (10.0, 10.0)).step() == 5
    await set_global(db, 8, actor="test")
    await db.execute("update onceward.limits set changed_at = now() - interval '61 seconds'")
    assert await AdaptiveLimit(db, measure=lambda: (90.0, 10.0)).step() == 3
    rows = await db.fetch("select before, after, reason from onceward.limit_history('global', 10)")
    assert [tuple(row) for row in rows] == [
        (8, 3, "cpu 90 %, memory 10 %, 1 due"),
        (5, 8, "set by an operator"),
        (3, 5, "cpu 10 %, memory 10 %, 1 due"),
    ]
    await db.execute("update onceward.limit_changes set changed_at = now() - interval '91 days' where after = 5")
    await reconcile(db)
    assert await db.fetchval("select count(*) from onceward.limit_history('global', 10)") == 2
