"""An app whose handlers misbehave in every place where a user's code runs: in tests, and in processes of `tests.work.fleet`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections import Counter
from typing import Any, ClassVar

from onceward import Engine, Event, Job, JobEnd, Onceward, Permanent, Run, Tx, Workflow
from onceward.live import Query
from tests.work.cells import WAYS

app = Onceward("misbehaving")

TIMEOUT_S = float(os.environ.get("MISBEHAVING_TIMEOUT_S", "60"))


class Own(BaseException):
    """An exception of a library that does not derive from `Exception`."""


async def misbehave(how: str, tx: Tx | None = None) -> None:
    """Do what a handler must not do."""
    match how:
        case "cancelled":
            other = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            other.cancel()
            await other
        case "generator":
            raise GeneratorExit
        case "closed":  # Python closes a coroutine that awaits such a task, instead of raising there
            await asyncio.create_task(misbehave("generator"))
        case "own":
            raise Own("not an Exception")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "own task":
            cancel_own_task()
            await asyncio.sleep(0)
        case "own task and success":
            cancel_own_task()
        case "subtask":
            async with asyncio.TaskGroup() as group:
                group.create_task(misbehave("generator"))
        case "ended":
            assert tx is not None
            await tx.execute("rollback")
        case "committed":
            assert tx is not None
            await tx.execute("commit")
        case "begun again":
            assert tx is not None
            await tx.execute("rollback")
            await tx.execute("begin")
            raise ValueError("after the end")
        case "idle":  # PostgreSQL ends the session of a transaction that waits too long for its next statement
            assert tx is not None
            await tx.execute("set local idle_in_transaction_session_timeout = 20")
            await asyncio.sleep(0.1)
            await tx.execute("select 1")
        case "exit in task":  # the exception ends the event loop, not the handler
            await asyncio.create_task(misbehave("exit"))
        case "swallow":
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue
        case _:
            misbehave_in_thread(how)


def misbehave_in_thread(how: str) -> None:
    """Do what a plain function must not do. In a coroutine it blocks the event loop."""
    match how:
        case "cancelled":
            raise asyncio.CancelledError
        case "generator":
            raise GeneratorExit
        case "own":
            raise Own("not an Exception")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "stop":
            raise StopIteration
        case "block" | "hang":
            time.sleep(60)
        case "_exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            bytearray(300 << 20)
        case _:
            return


def cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@app.job(retry=[0.0], timeout=TIMEOUT_S)
async def without_tx(*, how: str) -> None:
    await misbehave(how)


@app.job(retry=[0.0], timeout=TIMEOUT_S)
async def with_tx(tx: Tx, *, how: str) -> None:
    await tx.execute("select 1")
    await misbehave(how, tx)


@app.job(retry=[0.0], timeout=TIMEOUT_S)
def threaded(*, how: str) -> None:
    misbehave_in_thread(how)


@app.job(process=True, retry=[0.0], memory_mb=100, timeout=1)
def isolated(*, how: str) -> None:
    misbehave_in_thread(how)


@app.job(batch=5, retry=[0.0], timeout=TIMEOUT_S)
async def batched(jobs: list[Job], tx: Tx) -> None:
    await tx.execute("select 1")
    for job in jobs:
        await misbehave(job.args["how"], tx)


@app.job(retry=[0.0])
async def hooked(tx: Tx, *, how: str) -> None:
    await tx.execute("select 1")


@hooked.on_end
async def after_hooked(tx: Tx, end: JobEnd) -> None:
    await misbehave(end.arguments["how"], tx)


@app.job
async def innocent(tx: Tx) -> str:
    return await tx.fetchval("select 'done'")


@app.job(timeout=120)
async def patient(tx: Tx, *, seconds: float) -> None:
    """An innocent job that runs while another handler ends the process."""
    await tx.execute("select 1")
    await asyncio.sleep(seconds)


class Meeting:
    """Jobs of one name that wait for each other."""

    here: ClassVar[Counter[str]] = Counter()
    met: ClassVar[set[str]] = set()

    def __init__(self, name: str, of: int) -> None:
        self._name, self._of = name, of

    def __enter__(self) -> Meeting:
        self.here[self._name] += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.here[self._name] -= 1

    def is_waiting(self) -> bool:
        if self.here[self._name] >= self._of:
            self.met.add(self._name)
        return self._name not in self.met


@app.job(timeout=25)
async def meet(*, name: str, of: int) -> None:
    """Succeed if `of` of these jobs run at the same time, which needs as many slots."""
    with Meeting(name, of) as meeting:
        while meeting.is_waiting():
            await asyncio.sleep(0.01)


@app.job(timeout=25)
async def meet_with_tx(tx: Tx, *, name: str, of: int) -> None:
    await tx.execute("select 1")
    await meet(name=name, of=of)


@app.job(timeout=25)
def meet_in_thread(*, name: str, of: int) -> None:
    with Meeting(name, of) as meeting:
        while meeting.is_waiting():
            time.sleep(0.01)


MEETINGS = (meet, meet_with_tx, meet_in_thread)


async def assert_full_speed(engine: Engine, slots: int) -> None:
    """Each kind of handler still gets every slot, with its connection or thread."""
    for job in MEETINGS:
        held = [(await engine.enqueue(job, name=job.name, of=slots)).id for _ in range(slots)]
        for id in held:
            assert (await engine.wait(id, timeout=60)).outcome == "success", job.name


@app.on("stripe", "charge.succeeded", retry=[0.0], timeout=TIMEOUT_S)
async def event(event: Event[Any], tx: Tx) -> None:
    await tx.execute("select 1")
    await misbehave(event.payload["data"]["object"]["description"], tx)


@app.on("stripe", "charge.refunded")
async def good_event(event: Event[Any], tx: Tx) -> None:
    await tx.execute("select 1")


async def step(how: str) -> None:
    await misbehave(how)


async def step_with_tx(tx: Tx, how: str) -> None:
    await tx.execute("select 1")
    await misbehave(how, tx)


def step_in_thread(how: str) -> None:
    misbehave_in_thread(how)


STEPS = {"step": step, "step with tx": step_with_tx, "step in thread": step_in_thread, "compensation": step}


@app.workflow
async def stepwise(wf: Workflow, *, where: str, how: str) -> None:
    await wf.options(retry=[0.0], timeout=TIMEOUT_S).step(STEPS[where], how)


@app.workflow
async def compensated(wf: Workflow, *, where: str, how: str) -> None:
    await wf.options(retry=[0.0], timeout=TIMEOUT_S).compensate(STEPS[where], how)
    raise Permanent("undo what was done")


@app.workflow
async def bodily(wf: Workflow, *, where: str, how: str) -> None:
    await misbehave(how)


WORKFLOWS = {**dict.fromkeys(STEPS, stepwise), "compensation": compensated, "workflow": bodily}


@app.query(allow="anyone")
async def ask(q: Query, *, how: str) -> str:
    await misbehave(how)
    return await q.fetchval("select 'answered'")


def scheduled(how: str, where: str) -> str:
    """Return the name of the schedule that misbehaves so, because a schedule takes no arguments."""
    return f"{where}-{how}".replace(" ", "-")


def declare_schedule(how: str) -> None:
    async def item(_item: int, tx: Tx) -> None:
        await tx.execute("select 1")
        await misbehave(how, tx)

    async def items(_items: list[int], tx: Tx) -> None:
        await item(1, tx)

    @app.cron("0 0 1 1 *", name=scheduled(how, "schedule"), retry=[0.0], timeout=TIMEOUT_S)
    async def schedule(run: Run) -> None:
        await misbehave(how)

    @app.cron("0 0 1 1 *", name=scheduled(how, "item of a schedule"), retry=[0.0], timeout=TIMEOUT_S)
    async def schedule_of_items(run: Run) -> None:
        await run.each([1], item, key=str)

    @app.cron("0 0 1 1 *", name=scheduled(how, "batch of a schedule"), retry=[0.0], timeout=TIMEOUT_S)
    async def schedule_of_batches(run: Run) -> None:
        await run.each_batch([1], items, key=str)


for each in WAYS:
    declare_schedule(each)
