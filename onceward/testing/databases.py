"""Databases for tests: one PostgreSQL server per machine and user, and a fresh migrated database for each test.

The first database with a set of migrations is built and kept as a template. Each further database is a copy of it,
which takes about 50 ms. The next copy is made while a test runs. A database in which a test changed a few rows gets its
first rows back and is used again (`reuse.py`); the others are dropped beside the tests.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import asyncpg

from onceward.db import migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.db.migrations import CREATE_MIGRATIONS
from onceward.feature import Migrations
from onceward.testing.reuse import Original, read_original, restore

SERVER_VARIABLE = "ONCEWARD_TEST_SERVER"
TEMPLATE_LOCK = 4242
IN_MEMORY = Path("/dev/shm")
"""The file system of Linux that is in memory."""
ENOUGH_MEMORY = 8 << 30
MOST_USES = 25
"""Deleted rows stay in the files of a database, so it is dropped after some tests."""
DROPPED_AT_ONCE = 25
"""Used databases are dropped in groups: PostgreSQL runs a checkpoint for each group of drops."""
T = TypeVar("T")


class TestServer:
    """The PostgreSQL server of a test run: the one that `ONCEWARD_TEST_SERVER` names, or an embedded one.

    All runs of a user share the embedded server. The first run starts it and the last one stops it. It does not write
    to disk safely (fsync is off), because its data is deleted with the run; a machine with much memory keeps it there.
    """

    __test__ = False  # not a test class, in spite of its name

    def __init__(self) -> None:
        self._given = os.environ.get(SERVER_VARIABLE)
        self._embedded: EmbeddedPostgres | None = None

    def start(self) -> str:
        """Start the server if necessary and return its URL."""
        if self._given:
            return self._given
        self._embedded = EmbeddedPostgres(_place_of_data() / f"onceward-tests-{os.getuid()}", fsync=False)
        return self._embedded.start()

    def stop(self) -> None:
        if self._embedded is not None:
            self._embedded.stop()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _place_of_data() -> Path:
    """Return the directory in memory if it has much room, or else the directory of temporary files.

    Dropping databases writes and removes thousands of files, which a busy disk makes tests wait for.
    """
    try:
        roomy = os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ENOUGH_MEMORY
    except OSError:
        roomy = False
    return IN_MEMORY if roomy else Path(tempfile.gettempdir())


class TestDatabases:
    """Creates databases with these migrations on a server, and drops them. One thread of its own does both."""

    __test__ = False

    def __init__(self, server_url: str, migrations: Sequence[Migrations]) -> None:
        self.server_url = server_url
        self._migrations = tuple(migrations)
        self._template: str | None = None
        self._strategy = "wal_log"
        self._used: list[str] = []
        self._thread = ThreadPoolExecutor(1, "test databases")
        self._runner: asyncio.Runner | None = None
        self._conn: asyncpg.Connection | None = None
        self._next: Future[str] | None = None
        self._original: Original | None = None
        self._restored: list[str] = []
        self._uses: dict[str, int] = {}
        self._counted_since: dict[str, datetime] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._next is not None:
            self._used.append(self._next.result())
        self._thread.submit(lambda: None).result()  # what is being restored is in one of the lists then
        self._used += self._restored
        self._drop_used().result()
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def create(self) -> str:
        """Create a migrated database and return its URL. Call it outside an event loop."""
        return self._take().result()

    async def create_async(self) -> str:
        """Create a migrated database and return its URL."""
        return await asyncio.wrap_future(self._take())

    def release(self, url: str) -> None:
        """Give a database back: another test gets it if it can be restored. Otherwise it is dropped, with others."""
        self._submit(self._take_back, url)

    def _take(self) -> Future[str]:
        """Return the next database, and begin to provide the one after it."""
        taken = self._next or self._submit(self._provide)
        self._next = self._submit(self._provide)
        return taken

    async def _provide(self) -> str:
        return self._restored.pop() if self._restored else await self._copy_template()

    async def _take_back(self, url: str) -> None:
        self._uses[url] = self._uses.get(url, 0) + 1
        if self._uses[url] < MOST_USES and self._original is not None:
            admin, since = await self._admin(), self._counted_since.get(url)
            restored_at = await restore(admin, url, _name_of(url), self._original, since)
            if restored_at is not None:
                self._counted_since[url] = restored_at
                self._restored.append(url)
                return
        self._used.append(url)
        if len(self._used) >= DROPPED_AT_ONCE:
            used, self._used = self._used, []
            await self._drop(*used)

    def _submit(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: str) -> Future[T]:
        """Run a coroutine in the thread, whose event loop and connection to the server stay open."""

        def run() -> T:
            self._runner = self._runner or asyncio.Runner()
            return self._runner.run(function(*arguments))

        return self._thread.submit(run)

    def _close(self) -> None:
        if self._runner is not None:
            if self._conn is not None:
                self._runner.run(self._conn.close())
            self._runner.close()

    async def _copy_template(self) -> str:
        if self._template is None:
            template = f"template_{fingerprint(self._migrations)}"
            await self._build_template(template)
            self._template = template
        name = f"test_{uuid.uuid4().hex[:12]}"
        await self._run(
            f"create database {name} template {self._template} strategy {self._strategy}",
            # As roles.sql does: a copy has the rights of a new database.
            f"revoke temporary on database {name} from public",
        )
        url = with_database(self.server_url, name)
        if self._original is None:
            self._original = await read_original(url)
        return url

    def _drop_used(self) -> Future[None]:
        urls, self._used = self._used, []
        return self._submit(self._drop, *urls)

    async def _drop(self, *urls: str) -> None:
        await self._run(*(f"drop database if exists {_name_of(url)} with (force)" for url in urls))

    async def _run(self, *statements: str) -> None:
        conn = await self._admin()
        for statement in statements:
            await conn.execute(statement)

    async def _admin(self) -> asyncpg.Connection:
        if self._conn is None or self._conn.is_closed():
            self._conn = await asyncpg.connect(self.server_url)
        return self._conn

    async def _build_template(self, name: str) -> None:
        conn = await asyncpg.connect(self.server_url)
        try:
            # Several test processes may need the same template at the same time.
            await conn.execute("select pg_advisory_lock($1)", TEMPLATE_LOCK)
            # Copying files takes a third of the processor time, but asks for two checkpoints, which are cheap only on a
            # server that does not write to disk safely.
            self._strategy = "wal_log" if await conn.fetchval("show fsync") == "on" else "file_copy"
            if await conn.fetchval("select 1 from pg_database where datname = $1", name):
                return
            building = f"{name}_building"
            await conn.execute(f"drop database if exists {building} with (force)")
            await conn.execute(f"create database {building}")
            target = await asyncpg.connect(with_database(self.server_url, building))
            try:
                await migrate(target, self._migrations)
            finally:
                await target.close()
            await conn.execute(f"alter database {building} rename to {name}")
        finally:
            await conn.close()


def fingerprint(migrations: Sequence[Migrations]) -> str:
    """Return a hash of every SQL file that the migrations consist of, and of the tables that record them."""
    digest = hashlib.sha256(CREATE_MIGRATIONS.encode())
    for line in migrations:
        functions = line.functions.rglob("*.sql") if line.functions is not None else ()
        for path in (*sorted(line.directory.glob("*.sql")), *sorted(functions)):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def with_database(url: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def _name_of(url: str) -> str:
    return url.partition("?")[0].rsplit("/", 1)[1]
