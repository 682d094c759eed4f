"""Kill -9 under load: what was committed arrives everywhere, at least once, under one id; what rolled back never."""

from __future__ import annotations

import asyncio
import random

from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from tests.child import ROOT, command, end_all

from .conftest import OutboxBench

EVENTS = 120


class Undone(Exception):
    """Rolls back."""


async def start_process(url: str, processes: list[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *command("tests.outbox.process", url), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    processes.append(process)
    assert process.stdout is not None
    while b"working" not in (line := await process.stdout.readline()):
        assert line, "the worker process did not start"
    return process


async def test_kill_at_random_loses_nothing_and_invents_nothing(bench: OutboxBench, database_url: str) -> None:
    endpoints = [CustomerEndpoint() for _ in range(3)]
    for endpoint in endpoints:
        await endpoint.start()
        await bench.register(endpoint.hook_url)
    committed: dict[str, int] = {}
    chance = random.Random(8)

    async def publish() -> None:
        for n in range(EVENTS):
            try:
                async with bench.engine.transaction() as tx:
                    sent = await tx.publish("order.paid", {"n": n})
                    if chance.random() < 0.3:
                        raise Undone
            except Undone:
                continue
            committed[sent.message_id] = n
            await asyncio.sleep(0.005)

    processes: list[asyncio.subprocess.Process] = []
    try:
        publishing = asyncio.create_task(publish())
        for _ in range(3):
            process = await start_process(database_url, processes)
            await asyncio.sleep(chance.uniform(0.05, 0.25))
            process.kill()
            await process.wait()
        await publishing
        # The remaining worker takes over the work of the killed ones.
        await bench.start_worker(observe_s=0.2, beat_s=0.1)

        async def all_delivered() -> bool:
            left = await bench.db.fetchval("select count(*) from onceward.deliveries where status <> 'success'")
            return left == 0

        await until(all_delivered, timeout_s=60)
        for endpoint in endpoints:
            assert set(endpoint.unique) == set(committed)
            for message_id, delivered in endpoint.unique.items():
                assert delivered.json["data"]["n"] == committed[message_id]
                assert delivered.json["id"] == message_id
    finally:
        await end_all(processes)
        for endpoint in endpoints:
            await endpoint.stop()
