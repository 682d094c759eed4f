"""One run: load and faults for some minutes, then repair, drain, observe and check."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onceward.db import Database
from tools.chaos.checker import check
from tools.chaos.faults import Fault
from tools.chaos.history import History
from tools.chaos.injector import Injected, Injector
from tools.chaos.load import Senders, Subscriber
from tools.chaos.observe import read, wait_until_drained
from tools.chaos.system import Shape, System

SENDERS_PATIENCE_S = 180.0
"""The senders have failed if none of them gets an answer of 200 for this long after all faults are over."""
PATIENCE_S = 120.0
SUBSCRIBERS_WITHIN_S = 60.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run has found and measured."""

    problems: list[str]
    history: History
    injected: list[Injected]
    drained_after_s: float
    restarts: int


async def run(
    folder: Path, shape: Shape, faults: Sequence[Fault], *, duration_s: float, rate: float, seed: int
) -> Outcome:
    """Run the load and the faults in a new system below `folder`, which keeps the logs and the history."""
    async with System(folder, shape) as system:
        senders = Senders(system.web_urls, rate=rate, seed=seed)
        subscribers = [Subscriber(system.web_urls, first=n) for n in range(2)]
        listening = [asyncio.create_task(subscriber.run()) for subscriber in subscribers]
        sending = asyncio.create_task(senders.run())
        injector = Injector(system.nodes, system.proxy, system.servers, direct_url=system.direct_url)
        ends = time.monotonic() + duration_s
        try:
            await injector.run(faults)
            await asyncio.sleep(max(0.0, ends - time.monotonic()))
            injector.note_ends()
            await system.repair()
            senders.stop()
            unanswered = await _until_answered(sending, senders)
            db = await Database.open(system.direct_url, min_size=1, max_size=2)
            drained_after_s = await wait_until_drained(db, patience_s=PATIENCE_S)
            history = History(requests=senders.requests, ended_nodes=injector.ended_nodes)
            history.interruptions = len(injector.injected)
            await read(db, history)
            await _until_current(subscribers, len(history.refs("event")))
            await db.close()
        finally:
            sending.cancel()
            for task in listening:
                task.cancel()
            await asyncio.gather(sending, *listening, return_exceptions=True)
        history.subscribed = [subscriber.held for subscriber in subscribers]
        history.calls, history.deliveries = system.sink.calls, system.sink.deliveries
        history.mails = system.sink.mails
        history.save(folder / "history.json")
        restarts = sum(node.restarts for node in system.nodes)
    return Outcome(
        problems=[*check(history), *unanswered],
        history=history,
        injected=injector.injected,
        drained_after_s=drained_after_s,
        restarts=restarts,
    )


async def _until_answered(sending: asyncio.Task[None], senders: Senders) -> list[str]:
    """Wait for the senders while one of them makes progress, however slow the machine is. Return what has failed."""
    acknowledged, moved = -1, time.monotonic()
    while not sending.done():
        count = sum(request.status == 200 for request in senders.requests)
        if count != acknowledged:
            acknowledged, moved = count, time.monotonic()
        if time.monotonic() - moved > SENDERS_PATIENCE_S:
            return [f"senders: no request was acknowledged for {SENDERS_PATIENCE_S:.0f} s after all faults were over"]
        await asyncio.wait({sending}, timeout=1.0)
    await sending
    return []


async def _until_current(subscribers: Sequence[Subscriber], count: int) -> None:
    """Give subscribers time to get the last change. The checker reports those that did not."""
    deadline = time.monotonic() + SUBSCRIBERS_WITHIN_S
    while any(subscriber.held != count for subscriber in subscribers) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
