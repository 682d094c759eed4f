"""Two versions of one app. The new one moves a job to another queue, and has a job and a type that the old one lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onceward import Event, Job, Onceward, Step, Tx, Workflow
from tests.crossings.tables import Records, effect

Version = Literal["old", "new"]
APP = "crossings"
PUBLISHED = "order.paid"


@dataclass(frozen=True)
class Made:
    app: Onceward
    jobs: dict[str, Any]
    flow: Any


def make_app(version: Version, records: Records) -> Made:
    """Return the app in this version. Its handlers write to `records` and to the table `effects`."""
    app = Onceward(APP)
    app.event_type(PUBLISHED, sample={"n": 1, "fails": 0})
    retry = [0.05, 0.05]

    @app.job(retry=retry)
    async def write(job: Job, tx: Tx, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
        await effect(tx, n, job.id)
        await records.run(n, job.id, fails=fails, pause_s=pause_s)

    @app.job(retry=retry)
    async def call(job: Job, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
        await records.run(n, job.id, fails=fails, pause_s=pause_s)

    @app.job(retry=retry)
    def compute(job: Job, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
        records.run_in_thread(n, job.id, fails=fails, pause_s=pause_s)

    @app.job(retry=retry, batch=5)
    async def index(jobs: list[Job], tx: Tx) -> None:
        for job in jobs:
            arguments: dict[str, Any] = job.args
            await effect(tx, arguments["n"], job.id)
            await records.run(arguments["n"], job.id, fails=arguments["fails"], pause_s=arguments["pause_s"])

    @app.job(retry=retry, queue="mail" if version == "old" else "post")
    async def moved(job: Job, tx: Tx, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
        await effect(tx, n, job.id)
        await records.run(n, job.id, fails=fails, pause_s=pause_s)

    @app.job(retry=retry)
    async def count(job: Job, tx: Tx, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
        """All of them lock the same row, for long enough that others wait for it."""
        await tx.execute("update counter set n = n + 1")
        await effect(tx, n, job.id)
        await records.run(n, job.id, fails=fails, pause_s=pause_s or 0.01)

    jobs: dict[str, Any] = {
        "write": write,
        "call": call,
        "compute": compute,
        "index": index,
        "moved": moved,
        "count": count,
    }
    if version == "new":

        @app.job(retry=retry)
        async def fresh(job: Job, tx: Tx, *, n: int, fails: int = 0, pause_s: float = 0.0) -> None:
            await effect(tx, n, job.id)
            await records.run(n, job.id, fails=fails, pause_s=pause_s)

        jobs["fresh"] = fresh

    async def store(tx: Tx, n: int) -> None:
        await effect(tx, n, 0)

    async def ask(step: Step, n: int) -> int:
        await records.run(n, 0, fails=0)
        return n

    @app.workflow
    async def flow(wf: Workflow, *, n: int) -> None:
        await wf.step(store, n)
        await wf.step(ask, n)
        await wf.sleep(0)

    async def handle(event: Event[dict[str, Any]], tx: Tx) -> None:
        n = int(event.data["metadata"]["n"])
        await effect(tx, n, 0)
        await records.run(n, 0, fails=int(event.data["metadata"]["fails"]))

    app.on("stripe", "charge.succeeded", retry=retry)(handle)
    app.on("stripe", "charge.updated", retry=retry, ordering=True)(handle)
    if version == "new":
        app.on("stripe", "charge.refunded", retry=retry)(handle)
    return Made(app, jobs, flow)
