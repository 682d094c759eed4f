"""Run Onceward under steady load and check that its memory stays flat: `make soak`, or `make soak ARGS=--short`.

One process (web, workers, schedules) receives webhooks at a steady rate: new ones, duplicates, some handled inside the
request, some that fail and are retried, some with a bad signature. At the same time a client reads the API. The script prints
the rate, and the memory at the start and at the end. Exit code 1: the memory grew by more than the limit, an answer was wrong,
or an event did not have exactly one effect.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from onceward import Event, Onceward, Retry, Tx
from onceward.db import Database
from onceward.db.embedded import EmbeddedPostgres
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.telemetry import configure_logging
from onceward.trust.keys import create_key
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider

SECRET = "whsec_of_the_soak_which_is_long_enough"
ENVIRON = {
    "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
    "ONCEWARD_SOURCE_INLINE_SECRET": SECRET,
    "ONCEWARD_SOURCE_INLINE_PROVIDER": "stripe",
    "ONCEWARD_SOURCE_INLINE_MODE": "inline",
    "ONCEWARD_SECRET_KEY": "a key of the soak which is long enough",
    "ONCEWARD_PORT": "0",
    "ONCEWARD_LOG_LEVEL": "error",
}
TABLES = "create table soak_effects (event bigint, kind text); grant all on soak_effects to onceward_app"
IN_FLIGHT = 100
MOST_WAITING = 500
MIB = 1 << 20

app = Onceward("soak")


@app.on("stripe", "charge.succeeded")
async def charged(event: Event[Any], tx: Tx) -> dict[str, bool]:
    await tx.execute("insert into soak_effects values ($1, 'event')", event.id)
    await tx.enqueue(follow, event=event.id)
    return {"charged": True}


@app.on("stripe", "charge.failed", retry=[0.1, 0.1])
async def flaky(event: Event[Any], tx: Tx) -> None:
    """Fail at the first attempt."""
    tries = await tx.fetchval("select count(*) from onceward.attempts where work_id = $1", event.id)
    if tries == 0:
        raise Retry("the first attempt fails")
    await tx.execute("insert into soak_effects values ($1, 'event')", event.id)
    await tx.enqueue(follow, event=event.id)


@app.job
async def follow(tx: Tx, *, event: int) -> None:
    await tx.execute("insert into soak_effects values ($1, 'job')", event)


# -- the measured process ----------------------------------------------------------------------------------------------


async def serve() -> None:
    settings = load_settings()
    configure_logging(level=settings.log_level)
    runtime = Process(app, settings, FEATURES)

    def ready() -> None:
        assert runtime.web is not None
        print(runtime.web.url, flush=True)

    await runtime.run(ready=ready)


@asynccontextmanager
async def server(database_url: str) -> AsyncIterator[tuple[psutil.Process, str]]:
    environ = {**os.environ, **ENVIRON, "ONCEWARD_DATABASE_URL": database_url}
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", env=environ, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            url = (await child.stdout.readline()).decode().strip()
        if not url:
            raise SystemExit("the server did not start")
        yield psutil.Process(child.pid), url
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
            await child.wait()


# -- the load ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """Counts of requests and answers."""

    sent: int = 0
    new: int = 0
    statuses: Counter[str] = field(default_factory=Counter[str])
    wrong: Counter[str] = field(default_factory=Counter[str])


class Senders:
    """Posts webhooks at a steady rate, or as fast as the server answers if that is slower."""

    def __init__(self, session: aiohttp.ClientSession, rate: float) -> None:
        self._session = session
        self._rate = rate
        self._provider = get_provider("stripe")
        self._config = SourceConfig(provider="stripe", secrets=(SECRET,))
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self.tally = Tally()
        self.may_send = asyncio.Event()

    async def run(self, for_s: float) -> None:
        ends = time.monotonic() + for_s
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for n in itertools.count():
                await self.may_send.wait()
                if time.monotonic() >= ends:
                    return
                await self._slots.acquire()
                group.create_task(self._send(n))
                due = max(due + 1 / self._rate, time.monotonic() - 1)
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _send(self, n: int) -> None:
        bad, again = n % 50 == 49, n % 10 == 9
        # A duplicate repeats a recent event, which may be running at this moment.
        number = n - 5 if again and not bad else n
        type = "charge.failed" if number % 20 == 3 else "charge.succeeded"
        source = "inline" if number % 4 == 0 else "stripe"
        body = self._provider.encode(self._provider.sample(type, {"id": f"evt_soak_{number}"}))
        headers = dict(self._provider.sign(self._config, b"something else" if bad else body, time.time()))
        expected = 401 if bad else 200
        try:
            async with self._session.post(f"/webhooks/{source}", data=body, headers=headers) as response:
                await response.read()
                self.tally.statuses[str(response.status)] += 1
                if response.status != expected:
                    self.tally.wrong[f"{response.status} instead of {expected}"] += 1
        except aiohttp.ClientError as error:
            self.tally.wrong[type_name(error)] += 1
        finally:
            self.tally.sent += 1
            self.tally.new += not bad and not again
            self._slots.release()


def type_name(error: Exception) -> str:
    return type(error).__name__


async def look(session: aiohttp.ClientSession, key: str, tally: Tally) -> None:
    """Read the API without end."""
    headers = {"Authorization": f"Bearer {key}"}
    while True:
        for path in ("/api/v1/events?limit=20", "/api/v1/sources", "/metrics", "/api/v1/audit"):
            async with session.get(path, headers=headers) as response:
                await response.read()
                if response.status != 200:
                    tally.wrong[f"{response.status} of {path.partition('?')[0]}"] += 1
        await asyncio.sleep(0.25)


async def hold_back(db: Database, senders: Senders) -> None:
    """Pause the senders while much work waits: on a busy machine it would take longer to drain than to send."""
    while True:
        if await db.fetchval("select count(*) from onceward.work") > MOST_WAITING:
            senders.may_send.clear()
        else:
            senders.may_send.set()
        await asyncio.sleep(0.25)


async def watch(process: psutil.Process, samples: list[tuple[float, float]], *, echo_every_s: float) -> None:
    """Sample the memory of the process every half second."""
    began = printed_at = time.monotonic()
    while True:
        now = time.monotonic()
        samples.append((now - began, process.memory_info().rss / MIB))
        if now - printed_at >= echo_every_s:
            printed_at = now
            print(f"  {now - began:5.0f} s  {samples[-1][1]:7.1f} MiB", flush=True)
        await asyncio.sleep(0.5)


# -- the verdict -------------------------------------------------------------------------------------------------------


async def settled(db: Database, *, patience_s: float) -> int:
    """Wait until no work has finished for a while, and return how much is left."""
    least: int | None = None
    deadline = 0.0
    while True:
        left: int = await db.fetchval("select count(*) from onceward.work where kind in ('event', 'job')")
        if least is None or left < least:
            least, deadline = left, time.monotonic() + patience_s
        if left == 0 or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.1)


async def faults(db: Database, tally: Tally) -> list[str]:
    problems = [f"{count} answers were wrong: {what}" for what, count in tally.wrong.items()]
    if left := await settled(db, patience_s=30):
        problems.append(f"{left} pieces of work are left, and none has finished for half a minute")
    events: int = await db.fetchval("select count(*) from onceward.webhook_events")
    if events != tally.new:
        problems.append(f"{tally.new} different events were sent, {events} are stored")
    odd = await db.fetchval(
        "select count(*) from onceward.webhook_events e where (select count(*) from soak_effects s"
        " where s.event = e.seq"
        " and s.kind = 'event') <> 1 or (select count(*) from soak_effects s where s.event = e.seq"
        " and s.kind = 'job') <> 1"
    )
    if odd:
        problems.append(f"{odd} events do not have exactly one effect and one job")
    return problems


def between(samples: list[tuple[float, float]], start: float, end: float) -> float:
    """Return the median of the samples between `start` and `end`, given as fractions of the time."""
    whole = samples[-1][0]
    return statistics.median(size for at, size in samples if start * whole <= at <= end * whole)


async def soak(database_url: str, *, for_s: float, rate: float, most_growth_mib: float) -> int:
    samples: list[tuple[float, float]] = []
    async with server(database_url) as (process, url):
        db = await Database.open(database_url, min_size=1, max_size=2)
        await db.execute(TABLES)
        await db.execute("create index on soak_effects (event)")
        async with db.transaction(role="engine") as tx:
            key = (await create_key(tx, name="soak", organization=None, scopes=["admin"], actor="soak")).text
        print(f"{for_s:.0f} s at {rate:.0f} webhooks/s, process {process.pid}", flush=True)
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT + 5)
        async with aiohttp.ClientSession(url, connector=connector) as session:
            senders = Senders(session, rate)
            others = [
                asyncio.create_task(hold_back(db, senders)),
                asyncio.create_task(look(session, key, senders.tally)),
                asyncio.create_task(watch(process, samples, echo_every_s=max(5.0, for_s / 20))),
            ]
            began = time.monotonic()
            await senders.run(for_s)
            took_s = time.monotonic() - began
            for each in others:
                if each.done():
                    each.result()
                each.cancel()
        problems = await faults(db, senders.tally)
        await db.close()
    # Caches and pools fill during the first third.
    first, last = between(samples, 0.33, 0.5), between(samples, 0.83, 1.0)
    print(f"memory at the start {first:.1f} MiB, at the end {last:.1f} MiB, growth {last - first:+.1f} MiB")
    print(f"rate {senders.tally.sent / took_s:.0f} webhooks/s, answers {dict(senders.tally.statuses)}")
    if last - first > most_growth_mib:
        problems.append(f"the memory grew by {last - first:.1f} MiB, at most {most_growth_mib:.0f} are allowed")
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="20 seconds instead of 10 minutes")
    parser.add_argument("--for-s", type=float, help="duration in seconds")
    parser.add_argument("--rate", type=float, default=200, help="webhooks per second (200)")
    parser.add_argument("--most-growth-mib", type=float, default=24, help="allowed growth of the memory in MiB (24)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
        return 0
    for_s = given.for_s or (20 if given.short else 600)
    with tempfile.TemporaryDirectory(prefix="onceward-soak-") as directory:
        Path(directory).chmod(0o755)  # if root runs this, the database runs as another user
        postgres = EmbeddedPostgres(Path(directory) / "data", fsync=False)
        try:
            url = postgres.start()
            return asyncio.run(soak(url, for_s=for_s, rate=given.rate, most_growth_mib=given.most_growth_mib))
        finally:
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main())
