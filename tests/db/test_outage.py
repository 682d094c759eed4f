"""An outage is logged when it starts, every half minute, and when it is over."""

from __future__ import annotations

import logging
import uuid

import asyncpg
import pytest
from structlog.testing import capture_logs

from onceward import Onceward
from onceward.db import Database, Unavailable, loudness
from onceward.db.outage import Outage
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings


def test_an_outage_is_logged_once_then_every_half_minute_then_when_it_ends() -> None:
    now = 100.0
    outage = Outage(clock=lambda: now)
    with capture_logs() as lines:
        outage.over()
        for _ in range(120):
            outage.note(OSError("refused"))
            now += 0.5
        outage.over()
        outage.over()
        outage.note(OSError("refused"))
    told = [(line["event"], line.get("for_s"), line.get("after_s"), line.get("tries")) for line in lines]
    assert told == [
        ("database.lost", None, None, None),
        ("database.still_lost", 30, None, 61),
        ("database.recovered", None, 60.0, 120),
        ("database.lost", None, None, None),
    ]


async def test_the_pool_logs_an_outage_once_for_all_its_users(database_url: str) -> None:
    db = await Database.open(database_url, min_size=0, max_size=2)
    servers = db._servers  # pyright: ignore[reportPrivateUsage]
    with capture_logs() as lines:
        servers.url = "postgresql://nobody@127.0.0.1:1/nothing"
        for _ in range(3):
            with pytest.raises(Unavailable):
                await db.fetchval("select 1")
        servers.url = database_url
        assert await db.fetchval("select 1") == 1
    assert [line["event"] for line in lines] == ["database.lost", "database.recovered"]
    await db.close()


def test_a_full_server_is_one_outage_until_nothing_was_refused_for_a_while() -> None:
    now = 100.0
    outage = Outage(clock=lambda: now)
    with capture_logs() as lines:
        for _ in range(10):  # some connections are refused, others are still open and work
            outage.note(asyncpg.TooManyConnectionsError("sorry, too many clients already"))
            now += 1
            outage.over()
        assert outage.lasts
        now += 5
        outage.over()
    assert [line["event"] for line in lines] == ["database.lost", "database.recovered"]


async def reason_of_database(process: Process) -> str | None:
    return next(each.reason for each in await process.health.look() if each.name == "database")


async def test_a_server_without_a_free_connection_is_unavailable_and_not_ready(database_url: str) -> None:
    role = f"narrow_{uuid.uuid4().hex[:8]}"
    admin = await asyncpg.connect(database_url)
    await admin.execute(f"create role {role} login connection limit 1")
    runtime = Process(Onceward("narrow"), Settings(), FEATURES)
    db = await Database.open(database_url.replace("//postgres@", f"//{role}@"), min_size=1, max_size=5)
    runtime._opening._database = db  # pyright: ignore[reportPrivateUsage]
    runtime.health.add("database", runtime._ask_database)  # pyright: ignore[reportPrivateUsage]
    try:
        assert await reason_of_database(runtime) is None
        with capture_logs() as lines:
            async with db.acquire():
                for _ in range(20):
                    with pytest.raises(Unavailable, match="too many connections"):
                        await db.fetchval("select 1")
                with pytest.raises(Unavailable, match="too many connections"):
                    await db.connect()
            assert await db.fetchval("select 1") == 1, "the open connection still works"
            assert await reason_of_database(runtime) == "Unavailable"
        assert [line["event"] for line in lines] == ["database.lost"]
    finally:
        await db.close()
        await admin.execute(f"drop role {role}")
        await admin.close()


async def test_a_failed_connection_outside_the_pool_is_logged_too(database_url: str) -> None:
    db = await Database.open(database_url, min_size=0, max_size=2)
    db._servers.url = "postgresql://nobody@127.0.0.1:1/nothing"  # pyright: ignore[reportPrivateUsage]
    with capture_logs() as lines, pytest.raises(Unavailable):
        await db.connect()
    assert [line["event"] for line in lines] == ["database.lost"]
    await db.close()


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Unavailable("no connection"), logging.DEBUG),
        (ConnectionRefusedError(), logging.DEBUG),
        (asyncpg.CannotConnectNowError(), logging.DEBUG),
        (asyncpg.TooManyConnectionsError(), logging.DEBUG),
        (asyncpg.UndefinedTableError(), logging.WARNING),
        (TimeoutError(), logging.WARNING),
    ],
)
def test_a_step_is_loud_only_if_the_database_was_there(error: Exception, level: int) -> None:
    assert loudness(error) == level
