"""A process that starts before PostgreSQL does waits for it, and says so; what waiting cannot cure ends it at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from onceward import Onceward
from onceward.db import MigrationError, Unavailable
from onceward.db.server_start import can_pass
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@asynccontextmanager
async def door(port: int, url: str, *, cut: int) -> AsyncIterator[list[int]]:
    """A TCP port before the server that cuts the first connections, as a server that restarts does."""
    query = parse_qs(urlsplit(url).query)
    seen: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(len(seen))
        if len(seen) <= cut:
            await reader.read(8)
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.5432")
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    yield seen
    server.close()


def through(url: str, port: int) -> str:
    parts = urlsplit(url)
    return f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"


def settings_for(url: str, *, wait_s: float) -> Settings:
    return Settings(database_url=SecretStr(url), database_wait_s=wait_s, pool_max=4, port=0)


async def test_a_worker_waits_for_a_server_that_is_down_and_then_cuts_connections(database_url: str) -> None:
    port = free_port()
    runtime = Process(Onceward("patient"), settings_for(through(database_url, port), wait_s=60), FEATURES)
    with capture_logs() as lines:
        starting = asyncio.create_task(runtime.start({"worker"}))
        async with asyncio.timeout(60):
            while not any(line["event"] == "database.waiting" for line in lines):
                await asyncio.sleep(0.02)
            async with door(port, database_url, cut=3) as seen:
                await starting
                assert len(seen) > 3
                await runtime.stop()
    events = [line["event"] for line in lines if line["event"].startswith("database.")]
    assert events[:2] == ["database.waiting", "database.available"]


async def test_the_error_after_the_time_limit_names_the_setting(database_url: str) -> None:
    runtime = Process(Onceward("patient"), settings_for(through(database_url, free_port()), wait_s=0.3), FEATURES)
    with pytest.raises(Unavailable, match=r"within 0.3 s \(ONCEWARD_DATABASE_WAIT_S\): cannot connect"):
        await runtime.start({"worker"})


async def test_a_missing_database_is_not_waited_for(database_url: str) -> None:
    runtime = Process(Onceward("patient"), settings_for(database_url.replace("/test_", "/gone_"), wait_s=60), FEATURES)
    with capture_logs() as lines, pytest.raises(Unavailable, match="does not exist"):
        await runtime.start({"worker"})
    assert not [line for line in lines if line["event"] == "database.waiting"]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (caused(Unavailable("x"), asyncpg.CannotConnectNowError()), True),
        (caused(Unavailable("x"), asyncpg.TooManyConnectionsError()), True),
        (caused(Unavailable("x"), ConnectionResetError()), True),
        (caused(Unavailable("x"), socket.gaierror()), True),
        (caused(MigrationError("x"), asyncpg.AdminShutdownError()), True),
        (caused(Unavailable("x"), asyncpg.InvalidPasswordError()), False),
        (caused(Unavailable("x"), asyncpg.InvalidCatalogNameError()), False),
        (caused(Unavailable("x"), ssl.SSLCertVerificationError()), False),
        (caused(Unavailable("x"), asyncpg.ClientConfigurationError("x")), False),
        (caused(MigrationError("x"), asyncpg.UndefinedTableError()), False),
        (MigrationError("pending"), False),
    ],
)
def test_only_what_can_pass_is_waited_for(error: Exception, passes: bool) -> None:
    assert can_pass(error) is passes
