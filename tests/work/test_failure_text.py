"""What a log line says about a handler's error: enough to find it, and nothing private."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from onceward import Onceward, Tx
from onceward.db import Database
from onceward.testing import until
from onceward.work.failure_text import loggable

PRIVATE = [
    ("no user ada@example.org in the list", "ada@example.org"),
    ("cannot reach https://user:hunter2@db.example.org/x", "hunter2"),
    ("refused: api_key=sk_live_abc was revoked", "sk_live_abc"),
    ("header Authorization: Bearer abc.def.ghi is wrong", "abc.def"),
    ("cannot parse {'name': 'Ada', 'iban': 'DE02'}", "Ada"),
    ("duplicate key value\nDETAIL:  Key (email)=(ada) already exists.", "ada"),
    ("1 error\nage\n  not an int [type=int, input_value='Ada L', input_type=str]", "Ada L"),
    ("call +49 170 1234567 failed", "1234567"),
    ("token " + "a1B2" * 10, "a1B2a1B2"),
    ("bad text '" + "private words " * 5 + "'", "private words"),
]


@pytest.mark.parametrize(("message", "private"), PRIVATE)
def test_a_logged_message_has_no_private_data(message: str, private: str) -> None:
    assert private in message
    logged = loggable(message)
    assert private not in logged
    assert logged.split()[0] == message.split()[0]


def test_an_ordinary_message_is_logged_whole_and_a_long_one_is_cut() -> None:
    assert loggable("seat A12 of show 7 is sold") == "seat A12 of show 7 is sold"
    assert loggable('relation "orders" does not exist') == 'relation "orders" does not exist'
    assert len(loggable("word " * 200)) == 300


async def test_the_line_of_a_failed_job_names_the_message_and_the_line_of_the_handler(bench) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def reserve(tx: Tx) -> None:
        await tx.execute("insert into no_such_table values (1)")

    here = await bench(app)
    with structlog.testing.capture_logs() as lines:
        job = await here.engine.enqueue(reserve)
        await here.start_worker()
        assert (await here.engine.wait(job.id, timeout=10)).outcome == "dead_letter"
        # The outcome is committed before it is logged.
        await until(lambda: any(line["event"] == "work.dead_lettered" for line in lines))
    [line] = [line for line in lines if line["event"] == "work.dead_lettered"]
    assert line["error"] == "UndefinedTableError"
    assert line["message"] == 'relation "no_such_table" does not exist'
    assert "test_failure_text.py" in line["at"]
    assert line["at"].endswith(" reserve")


async def test_a_table_without_a_grant_is_reported_with_the_grant(bench) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def reserve(tx: Tx) -> None:
        await tx.execute("insert into seats values (1)")

    here = await bench(app)
    await here.db.execute("create table seats (id int)")
    job = await here.engine.enqueue(reserve)
    await here.start_worker()
    finished = await here.engine.wait(job.id, timeout=10)
    assert finished.error["hint"].endswith("grant select, insert, update, delete on seats to onceward_app")


async def test_a_connection_with_an_open_transaction_is_returned_clean_and_without_noise(db: Database) -> None:
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: noise.append(context))
    async with db.acquire() as conn:
        await conn.execute("begin")
        await conn.execute("create table left_open (id int)")
    assert noise == []
    assert await db.fetchval("select to_regclass('left_open')") is None
    async with db.acquire() as conn:
        assert not conn.is_in_transaction()


async def test_a_task_cancelled_while_its_transaction_begins_leaves_no_open_transaction(db: Database) -> None:
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: noise.append(context))

    async def use() -> None:
        async with db.transaction() as tx:
            await tx.execute("select 1")

    for turns in range(12):
        task = asyncio.create_task(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert noise == []
    assert await db.fetchval("select 1") == 1
