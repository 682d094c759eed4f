"""The tree of consequences: everything a row caused, and what caused it."""

from __future__ import annotations

from uuid import UUID

import pytest

from onceward.db import Cause, Database
from onceward.runtime import FEATURES
from onceward.trust import NotFound, record
from onceward.work import Trace, trace
from tests.trust.conftest import Two


async def job(db: Database, id: int, *, caused_by: int | None = None, organization: UUID | None = None) -> None:
    await db.execute(
        "insert into onceward.jobs (id, organization_id, task, args, caused_by) values ($1, $2, $3, '{}', $4)",
        id,
        organization,
        f"task_{id}",
        caused_by,
    )


async def attempt(db: Database, id: int, outcome: str, number: int = 1) -> None:
    await db.execute(
        "insert into onceward.attempts (work_id, number, kind, task, outcome) values ($1, $2, 'job', 't', $3)",
        id,
        number,
        outcome,
    )


async def work(db: Database, id: int, *, lease: int | None = None, dead: str | None = None) -> None:
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at, lease, dead_reason)"
        " values ($1, 'job', 't', 'q', now(), $2, $3)",
        id,
        lease,
        dead,
    )


async def ask(db: Database, ref: int | str, **options: int) -> Trace:
    async with db.acquire() as conn:
        return await trace(conn, ref, FEATURES.traced, **options)


async def test_the_tree_holds_every_consequence_with_its_state(db: Database) -> None:
    await db.execute("select setval('onceward.ids', 1000)")
    for id, cause in ((1, None), (2, 1), (3, 1), (4, 2), (5, 2), (6, None)):
        await job(db, id, caused_by=cause)
    await attempt(db, 1, "retry")
    await attempt(db, 1, "success", 2)
    await work(db, 2)
    await attempt(db, 2, "retry")
    await work(db, 3, dead="permanent")
    await work(db, 4, lease=7)
    async with db.transaction(cause=Cause("job", 2)) as tx:
        await record(tx, "seat.sold", entity_type="seat", entity_id=1)
    found = await ask(db, 1)
    assert found.node.count() == 6
    assert (found.node.label, found.node.state, found.node.attempts) == ("task_1", "success", 2)
    assert found.node.finished_at is not None
    two, three = found.node.children
    assert (two.state, three.state) == ("pending", "dead_letter")
    assert [(child.kind, child.state) for child in two.children] == [
        ("job", "processing"),
        ("job", None),
        ("audit", "recorded"),
    ]


async def test_the_causes_lead_down_from_the_root(db: Database) -> None:
    for id, cause in ((1, None), (2, 1), (3, 2), (4, 3)):
        await job(db, id, caused_by=cause)
    found = await ask(db, "3")
    assert [node.id for node in found.causes] == [1, 2]
    assert [child.id for child in found.node.children] == [4]


async def test_tables_nobody_listed_are_in_the_tree_too(db: Database) -> None:
    await db.execute(
        "create schema shop; create table shop.tickets (id bigint primary key, caused_by bigint, status text)"
    )
    await job(db, 1)
    await db.execute("insert into shop.tickets values (2, 1, 'valid')")
    [ticket] = (await ask(db, 1)).node.children
    assert (ticket.kind, ticket.state) == ("ticket", "valid")


async def test_an_organization_sees_its_own_part_of_the_tree(db: Database, two: Two) -> None:
    await job(db, 101)
    await job(db, 102, caused_by=101, organization=two.a)
    await job(db, 103, caused_by=101, organization=two.b)
    await job(db, 104, caused_by=102, organization=two.b)
    async with db.transaction(organization=two.a) as tx:
        found = await trace(tx, 102, FEATURES.traced)
        assert (found.causes, found.node.children) == ((), ())
        for other in (101, 103, 104):
            with pytest.raises(NotFound):
                await trace(tx, other, FEATURES.traced)
    assert (await ask(db, 101)).node.count() == 4


async def test_a_cycle_of_causes_ends(db: Database) -> None:
    await job(db, 1, caused_by=2)
    await job(db, 2, caused_by=1)
    await job(db, 3, caused_by=3)
    assert (await ask(db, 1)).node.count() == 2
    assert (await ask(db, 3)).node.count() == 1


async def test_a_long_chain_and_a_wide_tree_are_walked(db: Database) -> None:
    await db.execute(
        "insert into onceward.jobs (id, task, args, caused_by)"
        " select i, 't', '{}', case when i <= 1500 then i - 1 else 1 end from generate_series(1, 2500) i"
    )
    assert (await ask(db, 2)).causes[0].id == 1
    few = await ask(db, 1, most=100)
    assert few.truncated
    assert few.node.count() <= 100
    deep = await ask(db, 1)
    assert deep.truncated
    assert deep.node.count() == 1 + 1000 + 300
    assert max(node["depth"] for node in deep.as_json()["tree"]) == 300
    assert len((await ask(db, 1500)).causes) == 300


async def test_the_tree_as_json_names_each_after_its_cause(db: Database) -> None:
    for id, cause in ((1, None), (2, 1), (3, 1), (4, 2)):
        await job(db, id, caused_by=cause)
    found = (await ask(db, 1)).as_json()
    assert [(node["depth"], node["id"], node["caused_by"]) for node in found["tree"]] == [
        (0, 1, None),
        (1, 2, 1),
        (2, 4, 2),
        (1, 3, 1),
    ]
    assert (found["causes"], found["truncated"]) == ([], False)


@pytest.mark.parametrize("ref", [99, "99", "evt_1", "'; drop table onceward.jobs; --", "9" * 40, "-1", "²"])
async def test_an_unknown_reference_is_not_found(db: Database, ref: int | str) -> None:
    with pytest.raises(NotFound):
        await ask(db, ref)
