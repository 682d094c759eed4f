"""Whatever a handler causes in a transaction that it shares says that this handler caused it; and who never shares one."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onceward import Engine, Job, Onceward, Run, Step, Tx, Workflow
from onceward.db import Database
from onceward.schedules import Scheduler, run_now
from onceward.statements import read_statement
from onceward.telemetry import tracing
from onceward.testing import drain, until
from onceward.work import commit_sharing, gate

A, B = UUID(int=1), UUID(int=2)


async def is_idle(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work where dead_reason is null)")


async def test_consequences_and_spans_of_each_member_name_its_own_work(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing._Tracing, "tracer", provider.get_tracer("test"))
    app = Onceward("t")

    @app.job
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        await tx.publish("order.paid", {"n": n})
        await tx.broadcast("orders", {"n": n})
        await tx.audit("order.noted", entity_type="order", entity_id=n)

    engine = Engine(db, app.registry)
    owners = [None, uuid4(), uuid4()]
    jobs = [await engine.enqueue(note.for_organization(owner), n=n) for n, owner in enumerate(owners)]
    await drain(engine, "default")
    assert await db.fetchval("select array_agg(distinct shared) from onceward.attempts") == [3]
    expected = [(n, job.id, owner) for n, (job, owner) in enumerate(zip(jobs, owners, strict=True))]
    for statement in (
        "select (convert_from(body, 'UTF8')::jsonb -> 'data' ->> 'n')::int, caused_by, organization_id from onceward.published order by 1",
        "select (payload ->> 'n')::int, caused_by, organization_id from onceward.topic_messages order by 1",
        "select entity_id::int, caused_by, organization_id from onceward.audit_log where action = 'order.noted' order by 1",
    ):
        assert [tuple(row) for row in await db.fetch(statement)] == expected, statement
    actors = await db.fetch("select actor from onceward.audit_log where action = 'order.noted' order by entity_id")
    assert [row["actor"] for row in actors] == [f"job:{job.id}" for job in jobs]
    spans: list[Any] = [each for each in exporter.get_finished_spans() if each.name == "process note"]
    assert [each.attributes["messaging.message.id"] for each in spans] == [str(job.id) for job in jobs]
    assert [each.attributes.get("onceward.organization") for each in spans] == [
        None if owner is None else str(owner) for owner in owners
    ]


async def test_workflows_and_runs_of_schedules_never_share(db: Database) -> None:
    app = Onceward("t")

    async def store(tx: Tx, n: int) -> None:
        await tx.execute("select 1")

    async def ask(step: Step, n: int) -> None: ...

    @app.workflow
    async def story(wf: Workflow, *, n: int) -> None:
        await wf.step(store, n)
        await wf.step(ask, n)

    async def expire(row: dict[str, int], tx: Tx) -> None:
        await tx.execute("select 1")

    @app.cron("0 2 * * *")
    async def nightly(run: Run) -> None:
        await run.each([{"id": n} for n in range(3)], expire)

    engine = Engine(db, app.registry)
    await Scheduler(db, app.schedules.values(), waker=engine.waker).register()
    for n in range(3):
        await engine.start_workflow(story, n=n)
    async with engine.transaction() as tx:
        await tx.become_engine()
        await run_now(tx, app.schedules["nightly"], by="tester")
    await drain(engine)
    rows = await db.fetch("select task, count(*), count(shared) as shared from onceward.attempts group by 1 order by 1")
    assert [(row["task"], row["shared"]) for row in rows] == [("cron:nightly", 0), ("workflow:story", 0)]
    assert not any(app.registry.tasks[row["task"]].shares for row in rows)


@pytest.mark.parametrize("where", ["before-join", "after-join", "before-commit"])
async def test_a_connection_cut_at_any_gate_of_a_group_charges_nobody_and_doubles_nothing(
    bench, patient: None, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    app = Onceward("t")
    connections: list[Any] = []
    cuts: list[str] = []

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        connections.append(tx.conn)
        await tx.execute("insert into effects values ($1)", n)

    def cut(name: str) -> None:
        if name == where and len(connections) > 4 and not cuts:
            cuts.append(name)
            connections[-1].terminate()

    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    await here.engine.enqueue_many([note.call(n=n) for n in range(12)])
    monkeypatch.setattr(gate, "hook", cut)
    await here.start_worker(concurrency=1)
    await until(lambda: is_idle(here.db), timeout_s=20)
    assert cuts == [where]
    assert [row["n"] for row in await here.db.fetch("select n from effects order by n")] == list(range(12))
    outcomes = await here.db.fetch("select outcome, number, shared from onceward.attempts")
    assert {row["outcome"] for row in outcomes} <= {"success", "snoozed"}
    assert {row["number"] for row in outcomes} == {1}
    assert any(row["shared"] for row in outcomes) is (where != "before-commit"), "then each runs alone"


@pytest.mark.parametrize("fair", [True, False])
async def test_organizations_take_turns_while_their_handlers_share_commits(bench, fair: bool) -> None:
    app = Onceward("t")
    order: list[UUID | None] = []

    @app.job
    async def note(job: Job, tx: Tx) -> None:
        await tx.execute("select pg_sleep(0.001)")
        order.append(job.organization)

    here = await bench(app)
    await here.engine.enqueue_many([note.for_organization(A).call()] * 600)
    await here.start_worker(concurrency=2, fair=fair)
    await until(lambda: len(order) > 20)
    before = len(order)
    await here.engine.enqueue(note.for_organization(B))
    await until(lambda: is_idle(here.db), timeout_s=30)
    passed = order.index(B) - before
    assert passed < 300 if fair else passed > 400, passed
    assert await here.db.fetchval("select max(shared) from onceward.attempts") > 1


async def test_attempts_say_why_their_group_was_rolled_back(db: Database) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def note(tx: Tx, *, n: int) -> None:
        if n == 2:
            raise ValueError("bad")

    engine = Engine(db, app.registry)
    jobs = await engine.enqueue_many([note.call(n=n) for n in range(4)])
    before = commit_sharing.ROLLED_BACK.labels("note", "failed").total
    await drain(engine)
    error = await db.fetchval("select error from onceward.attempts where work_id = $1", jobs[2].id)
    parted = {"members": 3, "rolled_back": "ValueError"}
    assert error["group"] == parted
    others = await db.fetch("select error from onceward.attempts where outcome = 'success' order by work_id")
    assert [row["error"] for row in others] == [{"group": parted}, {"group": parted}, None]
    assert commit_sharing.ROLLED_BACK.labels("note", "failed").total == before + 1
    [row] = await db.fetch(read_statement("work", "page_slowest"))
    assert (row["count"], row["failed"], row["per_commit"]) == (4, 1, 1.5), "what the overview shows"
