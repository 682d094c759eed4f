"""A database URL may name several servers: the one that accepts writes is used, whatever state the others are in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from pydantic import SecretStr, ValidationError

from onceward.db import FAILED, Database
from onceward.db.pool import server_of
from onceward.db.servers import Servers
from onceward.settings import Settings
from onceward.settings.database_url import Server, libpq_variables, servers_of
from onceward.testing import until
from onceward.work.heartbeat import Heartbeat, WorkerIdentity
from tools.chaos.proxy import Link, Target


@pytest.fixture
async def links(database_url: str) -> AsyncIterator[list[Link]]:
    """Two addresses of the test's server. Each can be frozen or cut."""
    socket = Path(parse_qs(urlsplit(database_url).query)["host"][0]) / ".s.PGSQL.5432"
    made = [Link("test", name, Target(path=socket)) for name in ("a", "b")]
    for link in made:
        await link.open()
    yield made
    for link in made:
        await link.close()


def several(url: str, links: list[Link]) -> str:
    parts = urlsplit(url)
    hosts = ",".join(f"127.0.0.1:{link.port}" for link in links)
    return f"postgresql://{parts.username}@{hosts}{parts.path}?sslmode=disable&target_session_attrs=read-write"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward.db.servers.STAGGER_S", 0.1)
    monkeypatch.setattr("onceward.db.servers.WATCH_EVERY_S", 0.1)


async def test_a_server_that_does_not_answer_does_not_hide_the_next_one(
    database_url: str, links: list[Link], quick: None
) -> None:
    url = several(database_url, links)
    links[0].hold()
    with pytest.raises(TimeoutError):  # asyncpg alone waits for the first server until the time is up
        await asyncpg.connect(url, timeout=0.5)
    db = await Database.open(url, min_size=1, max_size=2)
    assert await db.fetchval("select 1") == 1
    await db.close()


async def test_a_server_that_refuses_connections_is_skipped(database_url: str, links: list[Link], quick: None) -> None:
    links[0].cut()
    conn = await Servers(several(database_url, links)).connect()
    assert await conn.fetchval("select 1") == 1
    await conn.close()


async def test_connecting_ends_in_time_when_no_server_answers(
    database_url: str, links: list[Link], quick: None
) -> None:
    for link in links:
        link.hold()
    with pytest.raises(TimeoutError):
        await Servers(several(database_url, links)).connect(timeout=0.5)


async def test_sessions_to_a_frozen_server_end_when_another_one_accepts_writes(
    database_url: str, links: list[Link], quick: None
) -> None:
    db = await Database.open(several(database_url, links), min_size=1, max_size=2)
    listener = await db.connect()
    links[0].hold()
    waiting = asyncio.create_task(db.fetchval("select 1"))
    with pytest.raises(FAILED):
        async with asyncio.timeout(20):
            await waiting
    assert listener.is_closed()
    assert await db.fetchval("select 1") == 1
    await db.close()


async def test_a_heartbeat_leaves_a_frozen_server(database_url: str, links: list[Link], quick: None) -> None:
    db = await Database.open(database_url)
    who = WorkerIdentity(id=7, name="w", version="1", queues=["default"], tasks=[], forms=[])
    await Heartbeat.register(db, who)
    heartbeat = Heartbeat(
        several(database_url, links), who, pgbouncer=False, every_s=0.05, on_cancel=lambda _: None, timeout_s=0.5
    )

    async def beats() -> int:
        return await db.fetchval("select beat from onceward.workers where id = 7")

    heartbeat.start()
    first = await beats()
    await until(lambda: _above(beats, first))
    links[0].hold()
    stalled = await beats() + 1  # one beat may be under way
    await until(lambda: _above(beats, stalled))
    await asyncio.to_thread(heartbeat.stop)
    await db.close()


async def _above(read: Callable[[], Awaitable[int]], least: int) -> bool:
    return await read() > least


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://u:p@db/x", [Server("db", "5432")]),
        ("postgresql://u:p@a:1,b:2,[::1]:3/x", [Server("a", "1"), Server("b", "2"), Server("::1", "3")]),
        ("postgresql://u@/x?host=/run/pg&port=5433", [Server("/run/pg", "5433")]),
        ("postgresql:///x?host=a,b&port=1,2", [Server("a", "1"), Server("b", "2")]),
        ("postgresql:///x", [Server("localhost", "5432")]),
    ],
)
def test_the_servers_of_a_url(url: str, servers: list[Server]) -> None:
    assert servers_of(url) == servers


def test_a_message_names_all_servers_and_no_password() -> None:
    assert server_of("postgresql://u:p@a:1,b:2/x?target_session_attrs=read-write") == "a:1, b:2"


def test_psql_and_pg_dump_get_all_servers() -> None:
    assert libpq_variables("postgresql://me:p%40ss@a:1,b:2/shop?target_session_attrs=read-write") == {
        "PGHOST": "a,b",
        "PGPORT": "1,2",
        "PGUSER": "me",
        "PGPASSWORD": "p@ss",
        "PGDATABASE": "shop",
        "PGTARGETSESSIONATTRS": "read-write",
    }


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://u:p@a:1,b:2/x", "target_session_attrs=read-write"),
        ("postgresql://u:p@a:one/x", "the port 'one' is not a number"),
    ],
)
def test_an_unusable_url_is_refused_with_the_reason_and_without_the_password(url: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason) as refused:
        Settings(database_url=SecretStr(url))
    assert "u:p" not in str(refused.value)
