"""After a restore, ids of the lost time are skipped, and the work that will be repeated is listed."""

from __future__ import annotations

import asyncio
import re

import pytest

from onceward import Job, Onceward
from onceward.work.commands.recovery import REPEATED
from onceward.work.recovery import SKIPPED_IDS, NodesRun, Unfinished, recover

app = Onceward("t")


@app.job(outside=True)
async def notify(job: Job, *, n: int) -> None: ...


async def test_ids_of_the_lost_time_are_not_used_again_and_unfinished_work_is_listed(bench) -> None:
    here = await bench(app)
    first = await here.engine.enqueue(notify, n=1)
    second = await here.engine.enqueue(notify, n=2)
    recovery = await recover(here.db, actor="test", observe_s=0)
    assert recovery.unfinished == [Unfinished("job", "notify", 2, first.id, second.id)]
    later = await here.engine.enqueue(notify, n=3)
    assert later.id >= recovery.next_id > second.id + SKIPPED_IDS
    [entry] = await here.db.fetch("select actor, metadata from onceward.audit_log where action = 'database.recovered'")
    assert entry["actor"] == "test"
    assert entry["metadata"]["unfinished"] == 2


async def test_a_restored_database_is_not_changed_while_workers_run(bench) -> None:
    here = await bench(app)
    await here.start_worker()

    async def beat() -> None:
        while True:
            await here.db.execute("update onceward.workers set beat = beat + 1")

    beating = asyncio.create_task(beat())
    with pytest.raises(NodesRun, match="1 workers are running: stop all nodes"):
        await recover(here.db, actor="test", observe_s=0.2)
    beating.cancel()


async def test_a_restored_database_is_not_changed_while_a_process_without_a_worker_runs(bench) -> None:
    """`serve` takes numbers for events from the sequence."""
    here = await bench(app)
    await here.db.execute(
        "insert into onceward.processes (id, service, host, pid, version, knows)"
        " values (gen_random_uuid(), 'shop', 'node-3', 77, '1', '{}')"
    )
    note = "update onceward.processes set seen_at = clock_timestamp()"
    noting = asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(here.db.execute(note)))
    with pytest.raises(NodesRun, match=r"shop on node-3 \(pid 77\) is running: stop all nodes"):
        await recover(here.db, actor="test", observe_s=0, note_s=5)
    noting.cancel()
    assert (await recover(here.db, actor="test", observe_s=0, note_s=0.3)).next_id > SKIPPED_IDS, "killed, not running"


async def test_the_command_says_for_every_kind_of_work_what_a_repetition_means(bench) -> None:
    here = await bench(app)
    rule = await here.db.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint"
        " where conrelid = 'onceward.work'::regclass and conname like '%kind%'"
    )
    kinds = set(re.findall(r"'(\w+)'", rule))
    assert kinds >= {"event", "job", "message", "delivery", "workflow"}
    assert set(REPEATED) == kinds
