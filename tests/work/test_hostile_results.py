"""Text that PostgreSQL cannot store, in a result or an error, harms nobody but what is kept of that one attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward import Job, Onceward, Tx
from onceward.testing import until
from onceward.work import Claimed
from onceward.work.leases import Leases
from onceward.work.settle import Acknowledger, describe

LITERAL = "the six characters \\u0000, meant literally"
SURROGATE = "half a pair: \ud800"
NUL = "a NUL: \x00"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@pytest.mark.parametrize("text", [LITERAL, SURROGATE, NUL], ids=["literal", "surrogate", "nul"])
async def test_one_hostile_result_among_many_holds_up_no_acknowledgement(bench, text: str) -> None:
    app = Onceward("t")

    @app.job
    async def answer(*, n: int) -> dict[str, Any]:
        return {"n": n, "text": text if n == 7 else "fine", text if n == 7 else "key": 1}

    here = await bench(app)
    jobs = await here.engine.enqueue_many([answer.call(n=n) for n in range(21)])
    await here.start_worker()
    finished = [await here.engine.wait(job.id, timeout=20) for job in jobs]
    assert [(each.outcome, each.result["n"]) for each in finished] == [("success", n) for n in range(21)]
    kept = finished[7].result["text"]
    assert kept == (text if text is LITERAL else text[:-1] + "\ufffd")
    async with asyncio.timeout(10):
        await here.stop_workers()


@pytest.mark.parametrize("text", [LITERAL, SURROGATE, NUL], ids=["literal", "surrogate", "nul"])
@pytest.mark.parametrize("with_tx", [True, False])
async def test_a_hostile_error_text_is_one_attempt_and_not_many(bench, text: str, with_tx: bool) -> None:
    app = Onceward("t")
    calls: list[int] = []
    siblings: list[int] = []

    @app.job(max_attempts=1, outside=True)
    async def call(job: Job) -> None:
        calls.append(job.id)
        raise RuntimeError(text)

    @app.job(max_attempts=1)
    async def write(job: Job, tx: Tx) -> None:
        calls.append(job.id)
        raise RuntimeError(text)

    @app.job(max_attempts=1, timeout=60)
    async def sibling(job: Job) -> None:
        siblings.append(job.id)
        async with asyncio.timeout(30):
            while not await here.db.fetchval("select count(*) from onceward.attempts where work_id = $1", bad.id):
                await asyncio.sleep(0.02)

    here = await bench(app)
    running = await here.engine.enqueue_many([sibling.call()] * 3)
    bad = await here.engine.enqueue(write if with_tx else call)
    await here.start_worker()
    assert (await here.engine.wait(bad.id, timeout=20)).outcome == "dead_letter"
    for job in running:
        assert (await here.engine.wait(job.id, timeout=20)).outcome == "success"
    assert calls == [bad.id]
    assert sorted(siblings) == sorted(job.id for job in running)


async def test_a_batch_that_is_refused_is_halved_until_the_culprit_is_alone(bench) -> None:
    """Whatever PostgreSQL refuses, now or in years: here a table that refuses one result."""
    app = Onceward("t")

    @app.job
    async def answer(*, n: int) -> dict[str, int | str]:
        return {"n": n}

    here = await bench(app)
    await here.db.execute("alter table onceward.attempts add check (result ->> 'n' <> '13')")
    jobs = await here.engine.enqueue_many([answer.call(n=n) for n in range(50)])
    await here.start_worker()
    finished = [await here.engine.wait(job.id, timeout=20) for job in jobs]
    assert {each.outcome for each in finished} == {"success"}
    assert finished[13].result == {"not_kept": "PostgreSQL refused to store it: CheckViolationError 23514"}
    assert [each.result["n"] for n, each in enumerate(finished) if n != 13] == [n for n in range(50) if n != 13]


async def test_an_outcome_that_cannot_be_stored_at_all_becomes_a_dead_letter(bench) -> None:
    app = Onceward("t")
    calls: list[int] = []

    @app.job(outside=True)
    async def call(job: Job) -> str:
        calls.append(job.id)
        return "sent"

    here = await bench(app)
    await here.db.execute("alter table onceward.attempts add check (outcome <> 'success')")
    job = await here.engine.enqueue(call)
    await here.start_worker()
    assert (await here.engine.wait(job.id, timeout=20)).outcome == "dead_letter"
    assert await here.db.fetchval("select dead_reason from onceward.work") == "not_recorded"
    assert calls == [job.id]


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize(
    ("damage", "repair"),
    [
        ("alter table onceward.attempts rename to gone", "alter table onceward.gone rename to attempts"),
        (
            "create function broken() returns trigger language plpgsql as"
            " $$ begin raise 'a page is damaged' using errcode = 'XX001'; end $$;"
            "create trigger broken before insert on onceward.attempts for each row execute function broken()",
            "drop trigger broken on onceward.attempts",
        ),
    ],
    ids=["42P01", "XX001"],
)
async def test_a_success_waits_for_the_repair_of_the_catalogue(bench, outside: bool, damage: str, repair: str) -> None:
    app = Onceward("t")
    calls: list[int] = []

    @app.job(outside=outside)
    async def call(job: Job) -> str:
        calls.append(job.id)
        return "sent"

    here = await bench(app)
    await here.db.execute(damage)
    job = await here.engine.enqueue(call)
    with capture_logs() as lines:
        await here.start_worker()
        await until(lambda: [line for line in lines if line["event"].endswith(".delayed")])
    await here.db.execute(repair)
    finished = await here.engine.wait(job.id, timeout=20)
    assert (finished.outcome, finished.result) == ("success", "sent")
    assert calls == [job.id]


async def test_a_slot_that_fails_gives_up_its_own_row_only(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Onceward("t")
    runs: list[str] = []

    @app.job(timeout=60)
    async def sibling() -> None:
        runs.append("sibling")
        async with asyncio.timeout(30):
            while runs.count("fault") < 2:
                await asyncio.sleep(0.02)

    @app.job(retry=[0.1])
    async def fault() -> None:
        runs.append("fault")

    here = await bench(app)
    slow = await here.engine.enqueue(sibling)
    quick = await here.engine.enqueue(fault)
    failures = [RuntimeError("a fault of our own")]
    add = Acknowledger.add

    def broken_once(self: Acknowledger, work: Claimed, result: Any) -> None:
        if work.id == quick.id and failures:
            raise failures.pop()
        add(self, work, result)

    monkeypatch.setattr(Acknowledger, "add", broken_once)
    await here.start_worker()
    for job in (quick, slow):
        assert (await here.engine.wait(job.id, timeout=30)).outcome == "success"
    assert sorted(runs) == ["fault", "fault", "sibling"]


def test_an_error_whose_message_cannot_be_read_is_described_all_the_same() -> None:
    assert describe(Unreadable())["message"] == "the message of this error cannot be read: RuntimeError"


def test_a_lease_is_known_until_the_last_of_its_rows_is_done() -> None:
    leases = Leases()
    lease = leases.begin()
    assert leases.knows(lease), "before its claim is sent"
    first, second = (Claimed(lease, n, "job", "t", args={}) for n in (1, 2))
    leases.taken(lease, [first, second])
    leases.done(first)
    leases.done(first)
    assert leases.knows(lease), "one row that is done twice does not stand for two"
    leases.done(second)
    assert not leases.knows(lease)
    assert leases.take_finished() == [lease]
