"""The cells of the matrix in which nothing but the end of the process helps (see test_misbehaving.py).

A supervisor starts the process again. The culprit crashes until it is a dead letter, good work is done, and where the process
knows the culprit, nobody else is charged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from onceward import Engine
from onceward.db import Database
from onceward.schedules import Scheduler
from onceward.schedules.operations import run_now
from onceward.testing import TestInbox
from onceward.testing.webhook_inbox import KEY, SECRET
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tests.child import ROOT, command, end
from tests.live.conftest import Client
from tests.queries import until_query
from tests.work.cells import CELLS, survives
from tests.work.misbehaving import WORKFLOWS, app, assert_full_speed, innocent, patient, scheduled
from tests.work.test_misbehaving import TASKS
from tools.chaos.ports import free_ports

ENDED_BY_HANDLER = 70
PATIENCE_S = 150.0
"""How long the tests wait for a process that starts or ends: a loaded machine takes a minute to start one."""
SLOW = [pytest.mark.slow, pytest.mark.timeout(300)]
REQUESTS = ("event inline", "live query")
PLACES = [place for place, how in CELLS if how == "block" and place not in REQUESTS]
DEAD = "select count(*) from onceward.work where dead_reason = 'worker_lost' and id = any($1::bigint[])"
HOOKS_LEFT = "select count(*) from onceward.work where task = 'hooked#on_end' and dead_reason is null"
"""A hook of a dead letter is a job of its own, which misbehaves too."""
CHARGED = "select array_agg(distinct work_id) from onceward.attempts where outcome in ('crashed', 'dead_letter')"


class Fleet:
    """A process of the app, started again after its end, and what it prints."""

    def __init__(self, db: Database, process: subprocess.Popen[str], port: int) -> None:
        self.db = db
        self.process = process
        self.address = f"127.0.0.1:{port}"
        self.lines: list[str] = []
        self.exits: list[int] = []

    async def until_exit(self, *, within_s: float = PATIENCE_S) -> int:
        """Wait for the end of the current process. Return its exit code."""
        async with asyncio.timeout(within_s):
            while True:
                line = await asyncio.to_thread(self._read)
                if line.startswith("exit "):
                    self.exits.append(int(line.removeprefix("exit ")))
                    return self.exits[-1]

    async def until_listening(self) -> None:
        """Wait until the current process answers requests."""
        host, port = self.address.split(":")
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    async def start_again(self) -> None:
        """Rescue the work of the dead process, as another worker does after a few seconds, and start the next one."""
        for worker in await self.db.fetch("select id, beat from onceward.workers"):
            await self.db.fetch("select * from onceward.rescue($1, $2)", worker["id"], worker["beat"])
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def terminate(self) -> None:
        """Send SIGTERM to the current process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)

    def text(self) -> str:
        return "".join(self.lines)

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the fleet has ended: " + self.text()[-2000:]
        self.lines.append(line)
        return line


@pytest.fixture
async def fleet(db: Database, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    [port] = free_ports(1)
    settings = {
        "ONCEWARD_DATABASE_URL": db.url,
        "ONCEWARD_DATA_DIR": str(tmp_path),
        "ONCEWARD_SHUTDOWN_GRACE_S": "0.5",
        "ONCEWARD_LOG_FORMAT": "json",
        "ONCEWARD_BLOCKED_WARN_S": "0.3",
        "ONCEWARD_BLOCKED_LIMIT_S": "0.9",
        "ONCEWARD_PORT": str(port),
        "ONCEWARD_SECRET_KEY": KEY,
        **getattr(request, "param", {}),
    }
    process = subprocess.Popen(  # noqa: ASYNC220
        command("tests.work.fleet", "up", "tests.work.misbehaving:app"),
        cwd=ROOT,
        env={**os.environ, **settings},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    yield Fleet(db, process, port)
    end(process)


@pytest.fixture
async def engine(db: Database) -> AsyncIterator[Engine]:
    engine = Engine(db, app.registry)
    await engine.start()
    await Scheduler(db, app.schedules.values(), waker=engine.waker).register()
    yield engine
    await engine.stop()


async def start(engine: Engine, place: str, how: str) -> int:
    """Start the work of a cell and return its id."""
    if place in TASKS:
        return await engine.db.fetchval("select onceward.enqueue($1, $2)", TASKS[place], {"how": how})
    async with engine.transaction() as tx:
        if place in WORKFLOWS:
            return (await tx.start_workflow(WORKFLOWS[place], where=place, how=how)).id
        await tx.become_engine()
        return await run_now(tx, app.schedules[scheduled(how, place)], by="test", waker=engine.waker)


async def receive(engine: Engine, how: str) -> int:
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("acked", provider="stripe")
        await inbox.trigger("charge.succeeded", source="acked", **{"data.object.description": how})
    return await engine.db.fetchval("select max(seq) from onceward.webhook_events")


async def crash_until_dead(fleet: Fleet, culprits: list[int], *, most: int) -> None:
    """Start the process again until every culprit is a dead letter, and so are the jobs of hooks that misbehaved."""
    for _ in range(most):
        await fleet.until_exit()
        await fleet.start_again()
        if await fleet.db.fetchval(DEAD, culprits) == len(culprits) and not await fleet.db.fetchval(HOOKS_LEFT):
            return
    left = await fleet.db.fetch("select id, task, crashes from onceward.work where dead_reason is null")
    ends = [line[:500] for line in fleet.lines if "ended" in line or "block" in line]
    raise AssertionError(f"after {most} crashes: {left}, {ends}")


@pytest.mark.parametrize(
    "places",
    [
        ("job with tx",),
        *(pytest.param(group, marks=SLOW) for group in (PLACES[n : n + 4] for n in range(0, len(PLACES), 4))),
    ],
    ids=", ".join,
)
async def test_a_handler_that_blocks_the_event_loop_is_charged_alone(
    engine: Engine, db: Database, fleet: Fleet, places: Sequence[str]
) -> None:
    good = [(await engine.enqueue(patient, seconds=2.0)).id for _ in range(3)]
    culprits = [await (receive(engine, "block") if p == "event acked" else start(engine, p, "block")) for p in places]
    await crash_until_dead(fleet, culprits, most=3 * len(places) + 3)
    good.append((await engine.enqueue(innocent)).id)
    for id in good:
        assert (await engine.wait(id, timeout=PATIENCE_S)).outcome == "success"
    assert set(fleet.exits) == {ENDED_BY_HANDLER}
    assert set(await db.fetchval(CHARGED)) - set(culprits) <= set(await hook_jobs(db))
    text = fleet.text().replace(" ", "")
    assert "tests/work/misbehaving.py" in text
    for id in culprits:
        assert f'"id":{id},' in text
        message = await db.fetchval("select error->>'message' from onceward.attempts where work_id = $1 limit 1", id)
        assert message == "the handler blocked its worker, which ended itself"


async def hook_jobs(db: Database) -> list[int]:
    return [row["id"] for row in await db.fetch("select id from onceward.work where task = 'hooked#on_end'")]


@pytest.mark.parametrize("place", ["event inline", pytest.param("live query", marks=pytest.mark.slow)])
async def test_a_request_that_blocks_the_event_loop_charges_no_work(
    engine: Engine, db: Database, fleet: Fleet, place: str
) -> None:
    """Nothing of it is stored: the sender or the browser tries again, and the log names the line."""
    good = [(await engine.enqueue(patient, seconds=6.0)).id for _ in range(3)]
    await until_query(db, "select count(*) from onceward.work where lease is not null", 3, timeout_s=PATIENCE_S)
    await fleet.until_listening()
    if place == "live query":
        client = await Client.open(f"ws://{fleet.address}/live", None)
        await client.subscribe("ask", how="block")
        assert await fleet.until_exit() == ENDED_BY_HANDLER
    else:
        url, body, headers = await signed(engine, "block")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.post(f"http://{fleet.address}{url}", data=body, headers=headers)
        assert await fleet.until_exit() == ENDED_BY_HANDLER
        assert await db.fetchval("select count(*) from onceward.webhook_events") == 0
        assert '"task":"stripe/charge.succeeded"' in fleet.text().replace(" ", "")
    assert "tests/work/misbehaving.py" in fleet.text()
    await fleet.start_again()
    for id in good:
        assert (await engine.wait(id, timeout=PATIENCE_S)).outcome == "success"
    assert await db.fetchval(CHARGED) is None


async def signed(engine: Engine, how: str) -> tuple[str, bytes, dict[str, str]]:
    """Add a source that is handled inside its requests. Return the address, body and headers of a webhook for it."""
    provider = get_provider("stripe")
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("inline", provider="stripe", mode="inline")
    body = provider.encode(provider.sample("charge.succeeded", {"data.object.description": how}))
    config = SourceConfig(provider="stripe", secrets=(SECRET,))
    return "/webhooks/inline", body, dict(provider.sign(config, body, time.time()))


@pytest.mark.parametrize(
    ("how", "place"),
    [
        ("exit in task", "job"),
        *(
            pytest.param(how, place, marks=pytest.mark.slow)
            for place, how in CELLS
            if how in ("exit in task", "_exit") and not survives(place, how) and place not in REQUESTS
        ),
    ],
)
async def test_a_handler_that_ends_its_process_is_a_dead_letter_after_three_crashes(
    engine: Engine, fleet: Fleet, how: str, place: str
) -> None:
    """What ran beside it counts a crash too, but no innocent work ends by it."""
    good = [(await engine.enqueue(innocent)).id for _ in range(3)]
    culprit = await (receive(engine, how) if place == "event acked" else start(engine, place, how))
    await crash_until_dead(fleet, [culprit], most=7 if place == "on_end hook" else 4)
    good.append((await engine.enqueue(innocent)).id)
    for id in good:
        assert (await engine.wait(id, timeout=PATIENCE_S)).outcome == "success"
    assert set(fleet.exits) == {3 if how == "_exit" else ENDED_BY_HANDLER}
    assert how == "_exit" or "process.ended_by_handler" in fleet.text()


@pytest.mark.parametrize(("poisons", "innocents"), [(1, 4), pytest.param(10, 200, marks=SLOW)])
async def test_no_innocent_is_a_dead_letter_because_of_others_that_end_their_process(
    engine: Engine, db: Database, fleet: Fleet, poisons: int, innocents: int
) -> None:
    """Work with which two processes died runs alone, so the third crash proves that it is the cause.

    Half of the innocent work has been beside two such crashes; the culprits are new, and come in between.
    """
    good = [(await engine.enqueue(patient, seconds=0.1)).id for _ in range(innocents)]
    await db.execute("update onceward.work set crashes = 2 where id = any($1::bigint[])", good[::2])
    culprits = [await start(engine, "job", "_exit") for _ in range(poisons)]
    await crash_until_dead(fleet, culprits, most=2 * poisons + 4)
    ended = [await engine.wait(id, timeout=PATIENCE_S) for id in good]
    assert [each.outcome for each in ended] == ["success"] * innocents


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fleet", [{"ONCEWARD_WORKER_CONCURRENCY": "16"}], indirect=True)
@pytest.mark.parametrize("how", ["block", "exit in task", "_exit"])
async def test_good_work_has_every_slot_of_the_next_process_within_30_s(engine: Engine, fleet: Fleet, how: str) -> None:
    """On a machine that is not loaded."""
    culprit = await start(engine, "job", how)
    await crash_until_dead(fleet, [culprit], most=4)
    began = time.monotonic()
    await assert_full_speed(engine, slots=16)
    assert time.monotonic() - began < 30


ONE_SLOT = {"ONCEWARD_WORKER_CONCURRENCY": "1", "MISBEHAVING_TIMEOUT_S": "0.2"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fleet", [ONE_SLOT], indirect=True)
@pytest.mark.parametrize(
    ("place", "how"), [("job in thread", "hang"), ("job", "swallow"), ("step", "swallow"), ("step in thread", "hang")]
)
async def test_a_handler_that_holds_the_last_slot_of_its_queue_ends_the_process_and_is_charged(
    engine: Engine, fleet: Fleet, place: str, how: str
) -> None:
    culprit = await start(engine, place, how)
    await crash_until_dead(fleet, [culprit], most=5)  # on a loaded machine the start itself may block the loop too long
    good = await engine.enqueue(innocent)
    assert (await engine.wait(good.id, timeout=PATIENCE_S)).outcome == "success"
    assert set(fleet.exits) == {ENDED_BY_HANDLER}
    assert "worker.ended_itself" in fleet.text()


@pytest.mark.parametrize("fleet", [{"MISBEHAVING_TIMEOUT_S": "0.2"}], indirect=True)
@pytest.mark.parametrize("hows", [("hang",), pytest.param(("hang", "swallow"), marks=pytest.mark.slow)])
async def test_a_process_with_handlers_that_cannot_be_stopped_ends_at_a_signal(
    engine: Engine, db: Database, fleet: Fleet, hows: tuple[str, ...]
) -> None:
    stuck = [await start(engine, "job in thread" if how == "hang" else "job", how) for how in hows]
    await until_query(
        db, "select coalesce(sum(cardinality(overdue)), 0)::int from onceward.workers", len(hows), timeout_s=PATIENCE_S
    )
    fleet.terminate()
    assert await fleet.until_exit() == 0
    assert fleet.text().count("handler.not_stopped") == len(hows)
    await fleet.start_again()
    assert set(await db.fetchval(CHARGED)) == set(stuck)
