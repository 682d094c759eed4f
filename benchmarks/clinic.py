"""Measure the clinic: how fast a backlog of provider statuses drains, and how long each provider waits for its answer.

`statuses` compares the drain of WhatsApp statuses (five per message) with plain batch jobs that write one row each: at
least half of their rate is the budget. The other cases send signed webhooks over HTTP to a process that handles them
meanwhile, and compare the time to the answer with its budget:

    meta-median   the median of WhatsApp's webhooks, at most 250 ms
    meta-slow     the share of WhatsApp's webhooks above 1 s, less than 1 %
    twilio        the slowest of Twilio's webhooks, less than 15 s
    webhook-p95   the p95 of all webhooks of the four providers, less than 200 ms

`reminders-1m` and `reminders-idle-1m` are runs of the reminders with a million appointments (clinic_reminders.py).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import aiohttp
from pydantic import SecretStr

from benchmarks import clinic_reminders
from benchmarks.measure import Measurement, Size, compare
from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database, migrate
from onceward.inbox.sources import NewSource, add
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import TestInbox
from onceward.trust import create_organization
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work import Worker, WorkerOptions
from onceward_apps.clinic import app

CASES = ("statuses", "meta-median", "meta-slow", "twilio", "webhook-p95", *clinic_reminders.CASES)
CONCURRENCY = 8
"""Places of the worker that drains the backlog."""
AT_ONCE = 8
"""How many webhooks of one provider are on their way at a time."""
SECRET = "d2ViaG9vay1iZW5jaC1zZWNyZXQtMzItYnl0ZXM="
SOURCES = {"clinic-stripe": "stripe", "clinic-whatsapp": "whatsapp", "clinic-twilio": "twilio", "daily": "daily"}
STATES = ("sent", "delivered", "read", "sent", "delivered")
CLEAR = """
truncate onceward.messages, onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.webhook_events,
    clinic.outgoing cascade
"""
MESSAGES = """
insert into onceward.messages (id, organization_id, key, channel, template, version, recipient, status, reference,
    sent_at)
select nextval('onceward.ids'), $1, 'bench:' || n, 'whatsapp', 'clinic.reminder', '1', 'bench', 'success',
       'wamid.' || n, now()
  from generate_series(1, $2::int) n
"""

bare = Onceward("bench_clinic")


@bare.job(batch=25, name="bench.touch")
async def touch(jobs: list[Job], tx: Tx) -> None:
    """Write one row per job, as a status does."""
    await tx.execute(
        "update onceward.messages set delivery = 'sent' where reference = any($1::text[])",
        [job.args["reference"] for job in jobs],
    )


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases: `statuses` is statuses per second, `meta-slow` a percentage, the others are milliseconds."""
    db = await Database.open(url, min_size=2, max_size=20)
    results: list[Measurement] = []
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.plus(app.features()).migrations)
        if only in (None, "statuses"):
            rig = _Rig(db)
            await rig.open()
            try:
                results.append(await rig.statuses(size.pick(100_000, 10_000, 50), size.turns()))
            finally:
                await rig.close()
        if only is None or only in clinic_reminders.CASES:
            results += await clinic_reminders.measure(db, size, only=only)
        if only != "statuses" and only not in clinic_reminders.CASES:
            results += await _answers(db, url, size.pick(2_000, 500, 10), only)
        return results
    finally:
        await db.close()


# -- answers over HTTP -------------------------------------------------------------------------------------------------


async def _answers(db: Database, url: str, count: int, only: str | None) -> list[Measurement]:
    """Send `count` webhooks of each provider that the cases need, and judge the times to their answers."""
    names = {"twilio": ["clinic-twilio"], "meta-median": ["clinic-whatsapp"], "meta-slow": ["clinic-whatsapp"]}
    sources = names.get(only or "", list(SOURCES))
    taken = await _measure(db, url, count, sources)
    meta, twilio = taken.get("clinic-whatsapp", []), taken.get("clinic-twilio", [])
    everything = sorted(each for times in taken.values() for each in times)
    cases: dict[str, tuple[str, Callable[[], float], float]] = {
        "meta-median": ("ms", lambda: median(meta), 250.0),
        "meta-slow": ("%", lambda: 100 * sum(each > 1000 for each in meta) / len(meta), 1.0),
        "twilio": ("ms", lambda: max(twilio), 15_000.0),
        "webhook-p95": ("ms", lambda: everything[int(len(everything) * 0.95)], 200.0),
    }
    return [
        await _judge(case, unit, value(), limit) for case, (unit, value, limit) in cases.items() if only in (None, case)
    ]


async def _judge(case: str, unit: str, value: float, limit: float) -> Measurement:
    async def ours() -> float:
        return value

    async def theirs() -> float:
        return limit

    return await compare(
        "clinic",
        case,
        ours,
        unit=unit,
        baseline=f"a limit of {limit:g} {unit}",
        theirs=theirs,
        turns=1,
        smaller_is_better=True,
    )


async def _measure(db: Database, url: str, count: int, names: list[str]) -> dict[str, list[float]]:
    """Start a process with the clinic, and return the milliseconds of each webhook by source."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=SecretStr(url), data_dir=Path(folder), port=0, pool_max=10, log_level="error")
        whole = Onceward("bench")  # a process adds its own parts to its app
        whole.include(app)
        process = Process(whole, settings, FEATURES)
        await process.start()
        try:
            assert process.web is not None
            assert process.context is not None
            async with db.transaction(role="engine") as tx:
                slug = f"bench-{uuid4().hex[:8]}"
                clinic = (await create_organization(tx, slug, name="Bench", actor="bench")).organization_id
                for name in names:
                    new = NewSource(
                        name=name,
                        provider=SOURCES[name],
                        secrets=(SECRET,),
                        organization=clinic,
                        options={"verify_token": "t"} if name == "clinic-whatsapp" else {},
                        public_url=process.web.url if name == "clinic-twilio" else None,
                    )
                    await add(tx, process.context.box, new, actor="bench")
            async with aiohttp.ClientSession(process.web.url) as http:
                for name in names:
                    await _known(http, name, process.web.url)
                return {name: await _send_all(http, name, process.web.url, count) for name in names}
        finally:
            await process.stop()


async def _known(http: aiohttp.ClientSession, name: str, url: str) -> None:
    """Wait until the process knows the new source."""
    async with asyncio.timeout(30):
        while True:
            body, headers = _signed(name, url, -1)
            async with http.post(f"/webhooks/{name}", data=body, headers=headers) as reply:
                if reply.status < 300:
                    return
            await asyncio.sleep(0.1)


async def _send_all(http: aiohttp.ClientSession, name: str, url: str, count: int) -> list[float]:
    numbers = iter(range(count))
    taken: list[float] = []

    async def send() -> None:
        for number in numbers:
            body, headers = _signed(name, url, number)
            began = time.perf_counter()
            async with http.post(f"/webhooks/{name}", data=body, headers=headers) as reply:
                await reply.read()
            taken.append((time.perf_counter() - began) * 1000)
            assert reply.status < 300, (name, reply.status)

    await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    return taken


def _signed(name: str, url: str, number: int) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a webhook."""
    provider = get_provider(SOURCES[name])
    body = provider.encode(_payload(name, number))
    public = url if name == "clinic-twilio" else None
    config = SourceConfig(provider=provider.name, secrets=(SECRET,), public_url=public)
    return body, provider.sign(config, body, time.time(), path=f"/webhooks/{name}")


def _payload(name: str, number: int) -> dict[str, Any]:
    sender = f"6591{number % 100_000:06}"
    match name:
        case "clinic-stripe":
            marks = {"app": "clinic", "appointment_id": str(uuid4())}
            intent = {"id": f"pi_{number}", "amount": 100, "currency": "sgd", "metadata": marks}
            return {"id": f"evt_{number}", "type": "payment_intent.payment_failed", "data": {"object": intent}}
        case "clinic-whatsapp":
            message = {"from": sender, "id": f"wamid.{number}", "type": "text", "text": {"body": "hello"}}
            value = {"metadata": {"phone_number_id": "1"}, "messages": [message]}
            change = {"field": "messages", "value": value}
            return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}
        case "clinic-twilio":
            return {
                "MessageSid": f"SM{number}",
                "SmsStatus": "received",
                "From": f"+{sender}",
                "To": "+6580000000",
                "Body": "hello",
            }
        case _:
            person = {"session_id": f"s{number}", "room": f"r{number % 50}", "joined_at": 1.0, "user_name": "Ann"}
            return {"type": "participant.joined", "id": f"d{number}", "payload": person}


# -- statuses ----------------------------------------------------------------------------------------------------------


class _Rig:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._engine = Engine(db, app.registry, event_types=app.event_types)
        self._bare = Engine(db, bare.registry)
        self._inbox = TestInbox(self._engine, app)
        self._organization: UUID

    async def open(self) -> None:
        async with self._db.transaction(role="engine") as tx:
            slug = f"bench-{uuid4().hex[:8]}"
            self._organization = (await create_organization(tx, slug, name="Bench", actor="bench")).organization_id
        await self._inbox.__aenter__()
        self._source = f"bench-{uuid4().hex[:8]}"
        await self._inbox.add_source(
            self._source, provider="whatsapp", organization=self._organization, options={"verify_token": "t"}
        )

    async def close(self) -> None:
        await self._inbox.__aexit__(None, None, None)

    async def statuses(self, count: int, turns: int) -> Measurement:
        async def ours() -> float:
            await self._fill(count // 5)
            for first in range(0, count, 500):
                await self._post(range(first, min(first + 500, count)))
            return count / await self._drain(self._engine)

        async def theirs() -> float:
            await self._fill(count // 5)
            async with self._bare.transaction(organization=self._organization) as tx:
                await tx.enqueue_many(
                    [touch.call(reference=f"wamid.{1 + n % max(count // 5, 1)}") for n in range(count)]
                )
            return count / await self._drain(self._bare)

        return await compare(
            "clinic", "statuses", ours, unit="/s", baseline="plain batch jobs", theirs=theirs, turns=turns
        )

    async def _drain(self, engine: Engine) -> float:
        """Let a worker do all work, and return the seconds from its start to the end of the last item."""
        options = WorkerOptions(concurrency=CONCURRENCY)
        worker = Worker(self._db, engine.registry, engine.waker, options=options, open_tx=engine.open_tx)
        began: datetime = await self._db.fetchval("select clock_timestamp()")
        await worker.start()
        try:
            while await self._db.fetchval("select exists (select from onceward.work)"):
                await asyncio.sleep(0.05)
        finally:
            await worker.stop()
        ended: datetime = await self._db.fetchval("select max(finished_at) from onceward.attempts")
        return (ended - began).total_seconds()

    async def _fill(self, messages: int) -> None:
        await self._db.execute(CLEAR)
        await self._db.execute(MESSAGES, self._organization, max(messages, 1))

    async def _post(self, numbers: range) -> None:
        statuses: list[dict[str, Any]] = [
            {"id": f"wamid.{1 + n // 5}", "status": STATES[n % 5], "timestamp": str(n), "recipient_id": "1"}
            for n in numbers
        ]
        change = {"field": "messages", "value": {"metadata": {"phone_number_id": "1"}, "statuses": statuses}}
        payload = {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}
        reply = await self._inbox.post(payload, source=self._source)
        assert reply.status == 200, reply
