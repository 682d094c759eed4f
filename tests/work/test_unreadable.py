"""One row that cannot be read fails alone: its neighbours run, and the queue goes on."""

from __future__ import annotations

from onceward import Job, JobEnd, Onceward, Tx
from onceward.db.unreadable import Unreadable, read_json


def test_json_that_is_nested_too_deeply_is_unreadable_and_other_json_is_not() -> None:
    assert isinstance(read_json("[" * 100_000 + "]" * 100_000), Unreadable)
    assert read_json("1" + "0" * 400) == 10**400
    assert read_json("[1, 2.5, null]") == [1, 2.5, None]


async def test_a_job_whose_arguments_cannot_be_read_is_a_dead_letter_and_its_neighbours_run(bench) -> None:
    app = Onceward("t")

    @app.job
    async def plain(*, n: object) -> None: ...

    @app.job
    async def with_tx(tx: Tx, *, n: object) -> None:
        await tx.execute("select 1")

    @with_tx.on_end
    async def note(tx: Tx, end: JobEnd) -> None: ...

    @app.job(batch=5, retry=[])
    async def in_batch(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("select $1::jsonb", [job.args["n"] for job in jobs])

    here = await bench(app)
    bad: list[int] = []
    good: list[int] = []
    for task in ("plain", "with_tx", "in_batch"):
        for in_lane in (False, True):
            for n in (1, 0, 2):
                id = await here.db.fetchval("select onceward.enqueue($1, $2)", task, {"n": n})
                if in_lane:
                    await here.db.execute("update onceward.work set lane = 'lane' where id = $1", id)
                (good if n else bad).append(id)
    deep = "jsonb_build_object('n', (repeat('[', 3000) || repeat(']', 3000))::jsonb)"
    await here.db.execute(f"update onceward.jobs set args = {deep} where id = any($1::bigint[])", bad)
    await here.start_worker(concurrency=2)
    for id in good:
        assert (await here.engine.wait(id, timeout=15)).outcome == "success"
    for id in bad:
        ended = await here.engine.wait(id, timeout=15)
        assert ended.outcome == "dead_letter", ended
    reasons = await here.db.fetch("select distinct task, dead_reason from onceward.work order by 1")
    assert [(row["task"], row["dead_reason"]) for row in reasons][1:] == [
        ("plain", "permanent"),
        ("with_tx", "permanent"),
    ]
