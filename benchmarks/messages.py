"""Measure queued and sent messages; the baselines are COPY into a bare table, and a bare loop over the same relay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from email.message import EmailMessage
from typing import Any

import orjson

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from benchmarks.smtp_sink import smtp_sink
from onceward.db import Database, dump_json, migrate
from onceward.integrations.smtp.channel import SmtpChannel
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.messages import Letter, Sender, Sending, Template, Templates, queue, render
from onceward.messages.mail import new_mail
from onceward.messages.mail_composer import compose
from onceward.messages.plain_mail import PlainMail
from onceward.runtime import FEATURES
from onceward.work import AppRegistry, Waker, Worker, WorkerOptions

CONCURRENCY = 16
SENDER = "bench@example.org"
TEMPLATE = Template(
    "bench", {"en": {"subject": "Order {{ number }}", "text": "Thank you for order {{ number }}."}}, {}, {"number": 1}
)


CASES = ("queue-100k", "smtp", "claim-1m")


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases `queue-100k` (seconds), `smtp` (mails/s) and `claim-1m` (ms per claim, a million waiting)."""
    db = await Database.open(url, min_size=2, max_size=CONCURRENCY + 8)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute("create table if not exists public.bare_messages (key text, recipient text, data text)")
        results: list[Measurement] = []
        if only in (None, "queue-100k"):
            results.append(await _queue_case(db, size.pick(100_000, 20_000, 50), size.turns()))
        if only in (None, "smtp"):
            results += await _smtp_cases(db, size.pick(5000, 2000, 10), size.turns())
        if only in (None, "claim-1m"):
            results.append(await _claim_case(db, size.pick(1_000_000, 100_000, 2000)))
        return results
    finally:
        await db.close()


async def _queue_case(db: Database, count: int, turns: int) -> Measurement:
    turn = 0

    async def ours() -> float:
        nonlocal turn
        turn += 1
        sendings = [Sending(to="a@example.org", key=f"{turn}:{n}", data={"number": n}) for n in range(count)]
        began = time.perf_counter()
        async with db.transaction() as tx:
            await queue(tx, TEMPLATE, sendings)
        taken = time.perf_counter() - began
        await db.execute("truncate onceward.messages, onceward.work")
        return taken * 100_000 / count

    async def theirs() -> float:
        rows = [(f"{n}", "a@example.org", dump_json({"number": n})) for n in range(count)]
        began = time.perf_counter()
        async with db.transaction(role="engine") as tx:
            await tx.conn.copy_records_to_table("bare_messages", records=rows, schema_name="public")
        taken = time.perf_counter() - began
        await db.execute("truncate public.bare_messages")
        return taken * 100_000 / count

    return await compare(
        "messages",
        "queue-100k",
        ours,
        unit="s",
        baseline="COPY into a bare table",
        theirs=theirs,
        turns=turns,
        smaller_is_better=True,
    )


async def _smtp_cases(db: Database, count: int, turns: int) -> list[Measurement]:
    """Measure mails a second. The relay is a sink in its own process, so that its work is not measured.

    The bare loops send mails that were rendered before. They have no database, no lease and no record of what was sent:
    the loop with our writer is the upper limit. The other loop writes mails with `EmailMessage`, as a user would.
    """
    async with smtp_sink() as sink:
        where = Relay("127.0.0.1", sink.port, encryption="none", max_connections=CONCURRENCY)
        turn = 0

        async def ours() -> float:
            nonlocal turn
            turn += 1
            return await _drain(db, where, count, turn)

        async def loop(write: Callable[[Letter], EmailMessage | PlainMail]) -> float:
            smtp = Smtp(where)
            letters = [_letter(n) for n in range(count)]

            async def one(letter: Letter) -> None:
                async with smtp.turn():
                    await smtp.send(write(letter), key=letter.key, sender=SENDER, to=letter.to)

            began = time.perf_counter()
            await _at_once([lambda letter=letter: one(letter) for letter in letters])
            taken = time.perf_counter() - began
            await smtp.aclose()
            return count / taken

        loops = {
            ("smtp", "bare loop with EmailMessage over the same connections"): _standard_mail,
            ("smtp-limit", "bare loop with our writer over the same connections"): lambda letter: compose(
                letter, SENDER
            ),
        }
        measured = [
            await compare(
                "messages",
                case,
                ours,
                unit="mails/s",
                baseline=baseline,
                theirs=lambda write=write: loop(write),
                turns=turns,
            )
            for (case, baseline), write in loops.items()
        ]
    if sink.mails != 4 * turns * count:
        raise BenchFailed(f"the relay accepted {sink.mails} mails, not {4 * turns * count}")
    return measured


def _standard_mail(letter: Letter) -> EmailMessage:
    message = new_mail()
    message["From"] = SENDER
    message["To"] = letter.to
    message["Subject"] = letter.rendered.subject
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.rendered.text)
    message.add_alternative(letter.rendered.html, subtype="html")
    return message


async def _drain(db: Database, where: Relay, count: int, turn: int) -> float:
    templates = Templates()
    templates.add(TEMPLATE)
    registry = AppRegistry()
    channel = SmtpChannel(Smtp(where), sender=SENDER)
    Sender(db, [channel], templates).install(registry)
    async with db.transaction() as tx:
        sendings = [Sending(to="a@example.org", key=f"smtp:{turn}:{n}", data={"number": n}) for n in range(count)]
        await queue(tx, TEMPLATE, sendings)
    options = WorkerOptions(concurrency=CONCURRENCY, poll_s=0.05, only_queues=["message.email"])
    worker = Worker(db, registry, Waker(db, notify=False), options=options)
    began = time.perf_counter()
    await worker.start()
    while await db.fetchval("select count(*) from onceward.work where kind = 'message'"):
        await asyncio.sleep(0.02)
    taken = time.perf_counter() - began
    await worker.stop()
    await channel.aclose()
    return count / taken


async def _claim_case(db: Database, backlog: int) -> Measurement:
    """Measure a claim of ten messages with a large backlog of due messages; the baseline has a small one."""
    from onceward.work.claim import claim

    async def once() -> float:
        async with db.acquire() as conn:
            began = time.perf_counter()
            transaction = conn.transaction()
            await transaction.start()
            await claim(conn, queue="message.email", tasks=["message:email"], most=10, lease=1, worker=1)
            taken = time.perf_counter() - began
            await transaction.rollback()
            return taken * 1000

    async def fill(count: int) -> None:
        await db.execute("truncate onceward.work")
        await db.execute(
            "insert into onceward.work (id, kind, task, queue, sort_at)"
            " select nextval('onceward.ids'), 'message', 'message:email', 'message.email', onceward.now()"
            " from generate_series(1, $1::int)",
            count,
        )
        await db.execute("analyze onceward.work")

    async def measured(count: int) -> list[float]:
        await fill(count)
        return sorted([await once() for _ in range(50)])

    few = (await measured(1000))[25]
    many = (await measured(backlog))[25]

    async def given(value: float) -> float:
        return value

    return await compare(
        "messages",
        "claim-1m",
        lambda: given(many),
        unit="ms",
        baseline="the same with 1,000 waiting",
        theirs=lambda: given(few),
        turns=1,
        smaller_is_better=True,
    )


async def _at_once(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    waiting = iter(calls)

    async def slot() -> None:
        for call in waiting:
            await call()

    await asyncio.gather(*(slot() for _ in range(CONCURRENCY)))


def _letter(number: int) -> Letter:
    data: dict[str, Any] = orjson.loads(orjson.dumps({"number": number}))
    return Letter(
        id=number,
        key=f"bare:{number}:{time.monotonic_ns()}",
        to="a@example.org",
        rendered=render(TEMPLATE, data, locale="en"),
        template=TEMPLATE,
        data=data,
    )
