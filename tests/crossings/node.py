"""A node of the crossings: a worker and an inbox in a process of its own, which can be killed and frozen."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import structlog

from onceward import Engine
from onceward.db import Database
from onceward.inbox import Inbox, UpkeepOptions
from onceward.outbox import Outbox, OutboxOptions
from onceward.trust import SecretBox
from onceward.work import Worker, WorkerOptions, claim_size, commit_sharing, contention, slots
from tests.child import die_with_parent
from tests.crossings.tables import Records
from tests.crossings.versions import Version, make_app

SHORT = WorkerOptions(concurrency=4, poll_s=0.2, beat_s=0.2, observe_s=0.3, settle_s=0.0, grace_s=2.0)
UPKEEP = UpkeepOptions(unhandled_after_s=1.0)
LOOPBACK = OutboxOptions(allow_loopback_http=True, timeout_s=5.0)

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.crossings.node"])


class Node:
    """A running node. Signals do to it what an operator, the kernel or a full machine would."""

    def __init__(self, url: str, number: int, version: Version, keys: tuple[str, ...]) -> None:
        self.number = number
        self.version: Version = version
        self.keys = keys
        self.frozen = False
        self._ready, child = _context.Pipe()
        self._process = _context.Process(target=_main, args=(url, number, version, keys, child), daemon=True)
        self._process.start()
        child.close()

    async def started(self) -> None:
        assert await asyncio.to_thread(self._ready.poll, 60), f"node {self.number} did not start"
        assert self._ready.recv() == "ready"

    def freeze(self) -> None:
        self.frozen = True
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        self.frozen = False
        os.kill(self._pid, signal.SIGCONT)

    async def stop(self) -> None:
        os.kill(self._pid, signal.SIGTERM)
        await self._ended(20)
        assert self._process.exitcode == 0, f"node {self.number} ended with {self._process.exitcode}"

    async def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        await self._ended(10)

    async def _ended(self, limit_s: float) -> None:
        await asyncio.to_thread(self._process.join, limit_s)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError(f"node {self.number} did not end within {limit_s} s")
        self._ready.close()

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _main(url: str, number: int, version: Version, keys: tuple[str, ...], ready: Connection) -> None:
    die_with_parent()
    # Failures that the verbs asked for would fill the output.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(_run(url, number, version, keys, ready))


def share_always() -> None:
    """Let handlers share commits however slow the machine is, and claim enough for that."""
    commit_sharing.AGE_S = commit_sharing.LONGEST_S = commit_sharing.SLOW_S = 2.0
    claim_size.QUICK_S = claim_size.AHEAD_FOR_S = 2.0
    slots.PATIENCE_S = 2.0
    contention.TRIAL_S = 0.1


async def note_limits(records: Records) -> None:
    """Note several times a second how often row locks have limited groups: the node may be killed at any time."""
    noted = 0
    while True:
        await asyncio.sleep(0.2)
        times = int(sum(tally.total for tally in contention.LIMITED._tallies.values()))
        if times != noted:
            await records.note_limits(noted := times)


async def _run(url: str, number: int, version: Version, keys: tuple[str, ...], ready: Connection) -> None:
    share_always()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    records = Records(url, number)
    await records.open()
    app = make_app(version, records).app
    db = await Database.open(url, min_size=1, max_size=8)
    engine = Engine(db, app.registry)
    box = SecretBox(keys)
    inbox = Inbox(
        db, app.registry, app.handlers, engine.waker, open_tx=engine.open_tx, box=box, environ={}, upkeep=UPKEEP
    )
    outbox = Outbox(db, box=box, catalogue=app.event_types, options=LOOPBACK, waker=engine.waker)
    outbox.install(app.registry)
    worker = Worker(db, app.registry, engine.waker, options=SHORT, open_tx=engine.open_tx)
    parts: list[Any] = [engine, inbox, outbox, worker]
    for part in parts:
        await part.start()
    ready.send("ready")
    noting = asyncio.create_task(note_limits(records))
    await stop.wait()
    noting.cancel()
    for part in reversed(parts):
        await part.stop()
    await db.close()
    await records.close()
