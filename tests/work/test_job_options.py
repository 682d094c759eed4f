"""The job API at run time: no option is silently ignored, and a result has the type that the function returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from onceward import Engine, Enqueued, Job, Onceward, ResultInvalid, RetryPolicy, Run, Tx, Workflow
from onceward.db import Database
from onceward.testing import drain
from onceward.work import Options

app = Onceward("options")


@dataclass
class Parcel:
    order: int
    at: datetime


@app.job
async def pack(tx: Tx, *, order: int) -> Parcel:
    return Parcel(order, datetime(2026, 5, 1, tzinfo=UTC))


@app.job
async def report(*, organization: str = "", job: str = "", key: str = "") -> str:
    return f"{organization} {job} {key}"


@app.job
async def unfit() -> int:
    return "not a number"  # pyright: ignore[reportReturnType]


@pytest.fixture
async def engine(db: Database) -> Engine:
    return Engine(db, app.registry)


async def test_a_job_may_have_arguments_named_like_parameters_of_the_engine(engine: Engine) -> None:
    organization = uuid4()
    done = await engine.enqueue(report.for_organization(organization), organization="a", job="b", key="c")
    await drain(engine)
    assert (await engine.wait(done)).result == "a b c"
    stored = await engine.db.fetchval("select organization_id from onceward.attempts where work_id = $1", done.id)
    assert stored == organization


async def test_a_result_has_the_type_that_the_function_returns(engine: Engine) -> None:
    done = await engine.enqueue(pack, order=7)
    await drain(engine)
    assert (await engine.wait(done)).result == Parcel(7, datetime(2026, 5, 1, tzinfo=UTC))


async def test_a_stored_result_that_does_not_fit_the_annotation_is_an_error(engine: Engine) -> None:
    done = await engine.enqueue(unfit)
    await drain(engine)
    with pytest.raises(ResultInvalid, match="unfit: the result"):
        await engine.wait(done)


async def test_calls_of_any_mix_are_inserted_in_their_order(engine: Engine) -> None:
    other = pack.tagged("x")
    calls = [pack.call(order=1), pack.call(order=2), report.call(), other.call(order=3), pack.call(order=4)]
    async with engine.transaction() as tx:
        done: list[Enqueued[Any]] = await tx.enqueue_many(calls)
    rows = await engine.db.fetch("select id, args ->> 'order' as n from onceward.jobs order by id")
    assert [(row["id"], row["n"]) for row in rows] == list(
        zip([each.id for each in done], ["1", "2", None, "3", "4"], strict=True)
    )


async def test_many_calls_of_one_job_need_few_statements(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from onceward.work import enqueuing

    written: list[int] = []
    columns = enqueuing._columns

    def counted(jobs: Any, left: int, bundle: int | None) -> Any:
        written.append(len(jobs))
        return columns(jobs, left, bundle)

    monkeypatch.setattr(enqueuing, "_columns", counted)
    assert len(await engine.enqueue_many(pack.call(order=n) for n in range(1500))) == 1500
    assert written == [375] * 4  # this process prepares one part while PostgreSQL writes another
    await engine.enqueue_many(pack.call(order=n) for n in range(200))
    assert written[4:] == [200]


async def test_a_group_commit_is_one_statement(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no transaction around it: two statements would be two commits, and a failure of the second repeats the first."""
    from onceward.work import enqueuing

    written: list[int] = []
    columns = enqueuing._columns

    def counted(jobs: Any, left: int, bundle: int | None) -> Any:
        written.append(len(jobs))
        return columns(jobs, left, bundle)

    monkeypatch.setattr(enqueuing, "_columns", counted)
    await asyncio.gather(*(engine.enqueue(pack, order=n) for n in range(1000)))
    assert max(written) == 500  # the most that a group commit takes


async def test_the_ids_are_right_when_other_sessions_took_some_in_between(engine: Engine) -> None:
    await engine.db.execute("alter sequence onceward.ids increment by 3")
    done = await engine.enqueue_many(pack.call(order=n) for n in range(600))
    rows = await engine.db.fetch("select id, (args ->> 'order')::int as n from onceward.jobs")
    assert {row["id"]: row["n"] for row in rows} == {each.id: n for n, each in enumerate(done)}


async def test_a_transaction_does_not_enqueue_for_another_organization(engine: Engine) -> None:
    async with engine.transaction(organization=uuid4()) as tx:
        with pytest.raises(ValueError, match="the transaction acts for"):
            await tx.enqueue(pack.for_organization(uuid4()), order=1)


async def test_arguments_by_position_are_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="by name"):
        await engine.enqueue(pack, 1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="by name"):
        pack.call(1)  # pyright: ignore[reportCallIssue]


def options(job: Any) -> Options:
    return job.options


def test_the_later_of_two_contrary_options_counts() -> None:
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    assert options(pack.schedule_in(hours=1).schedule_at(moment)).delay is None
    assert options(pack.schedule_at(moment).schedule_in(hours=1)).run_at is None
    assert options(pack.in_order("a").in_lane("b", limit=3)) == options(pack.in_lane("b", limit=3))
    laned = pack.in_lane("b", limit=3, parent="all", parent_limit=9)
    assert options(laned.in_order("a")) == options(pack.in_order("a"))
    assert options(pack.unique("k", within=60)) == options(pack.unique("k", within=timedelta(minutes=1)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: pack.unique("k", within=60, forever=True), "not both"),
        (lambda: pack.unique("k", within=0), "longer than 0"),
        (lambda: pack.unique("k", on_conflict=cast(Any, "ignore")), "skip, replace or debounce"),
        (lambda: pack.schedule_in(), "takes a timedelta or units"),
        (lambda: pack.schedule_in(timedelta(1), hours=1), "takes a timedelta or units"),
        (lambda: pack.max_attempts(0), "between 1 and 1000"),
    ],
)
def test_wrong_options_name_the_option(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def register(function: Any, **wanted: Any) -> Callable[[], object]:
    return lambda: Onceward("wrong").job(**wanted)(function)


async def late(*, order: int, tx: Tx) -> None: ...
async def after(order: int, tx: Tx) -> None: ...
async def swapped(tx: Tx, job: Job) -> None: ...
async def no_tx(jobs: list[Job]) -> None: ...
async def one(job: Job, tx: Tx) -> None: ...
async def several(jobs: list[Job], tx: Tx) -> None: ...
async def event_late(tx: Tx, *, wf: Workflow) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (register(late), "'tx' is keyword-only; injected parameters come first"),
        (register(after), "'tx' stands after 'order'; injected parameters come first"),
        (register(swapped), "'job' is in the wrong place; injected"),
        (register(no_tx, batch=5), "a batch handler takes"),
        (register(one, batch=5), "batch is 5, so the function takes `jobs: list"),
        (register(several), "batch is 1, so the function takes `job: Job`"),
        (lambda: Onceward("wrong").workflow(cast(Any, event_late)), "'wf' is keyword-only"),
    ],
)
def test_a_signature_that_cannot_be_typed_is_refused_when_it_is_registered(
    wrong: Callable[[], object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        wrong()


def test_max_attempts_applies_to_a_given_policy_too() -> None:
    policy = RetryPolicy(max_attempts=9, first_s=3)
    limited = Onceward("a")

    @limited.job(retry=policy, max_attempts=2)
    async def some() -> None: ...

    @limited.cron("0 3 * * *", retry=[1, timedelta(seconds=2)], max_attempts=5, timeout=timedelta(minutes=1))
    async def nightly(run: Run) -> None: ...

    assert some.task.retry == RetryPolicy(max_attempts=2, first_s=3)
    task = limited.schedules["nightly"].task
    assert (task.retry.max_attempts, task.retry.waits_s, task.timeout_s) == (5, (1.0, 2.0), 60.0)


def test_the_organization_of_a_bound_call_is_kept() -> None:
    organization = UUID(int=7)
    assert pack.for_organization(organization).call(order=1).job.options.organization == organization
