"""The configured database: your own server, or the embedded server, which `open` starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from onceward.background.tasks import spawn
from onceward.db import (
    Database,
    DatabaseError,
    LockWaits,
    MigrationError,
    Patience,
    Pending,
    migrate,
    plan,
    wait_for_server,
)
from onceward.feature import Migrations
from onceward.settings import Settings

if TYPE_CHECKING:
    from onceward.db.embedded import EmbeddedPostgres

OLDEST_SERVER = 150000


class OldServer(DatabaseError):
    """The server is older than PostgreSQL 15."""


class ConfiguredDatabase:
    """The database between `open` and `close`, with its pending migrations."""

    def __init__(self, settings: Settings, migrations: Sequence[Migrations] = ()) -> None:
        self.settings = settings
        self.migrations = migrations
        self._database: Database | None = None
        self._starting: asyncio.Future[str] | None = None
        self._server: EmbeddedPostgres | None = None

    @property
    def database(self) -> Database:
        if self._database is None:
            raise RuntimeError("the database is not open: call open() first")
        return self._database

    async def open(self, *, wait_s: float = 0) -> Database:
        """Connect to the configured database, or start the embedded one first.

        While the server is starting or unreachable, retry for `wait_s` seconds.
        """
        settings = self.settings
        url = (
            await self._start_embedded() if settings.database_url is None else settings.database_url.get_secret_value()
        )
        self._database = await wait_for_server(partial(self._connect, url), limit_s=wait_s)
        return self._database

    async def _connect(self, url: str) -> Database:
        settings = self.settings
        database = await Database.open(
            url,
            min_size=settings.pool_min,
            max_size=settings.pool_max,
            pgbouncer=settings.pgbouncer,
            application_name=settings.service,
        )
        try:
            version = int(await database.fetchval("show server_version_num"))
        except BaseException:
            await database.close()
            raise
        if version < OLDEST_SERVER:
            await database.close()
            raise OldServer(f"the server is PostgreSQL {version // 10000}, Onceward needs 15 or newer: upgrade it")
        return database

    async def _start_embedded(self) -> str:
        from onceward.db.embedded import EmbeddedPostgres

        # The thread cannot be interrupted. `close` waits for it, else the server would keep running.
        self._server = EmbeddedPostgres(self.settings.data_dir)
        self._starting = spawn(asyncio.to_thread(self._server.start))
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Close the connections. The embedded server stops when its last user leaves."""
        try:
            if self._database is not None:
                await self._database.close()
        finally:
            self._database = None
            if self._starting is not None and self._server is not None:
                await asyncio.wait({self._starting})
                await asyncio.to_thread(self._server.stop)

    async def pending_migrations(self, *, reapply_functions: bool = False) -> list[Pending]:
        """Return the migrations and function files that `migrate` would apply."""
        async with self.database.acquire() as conn:
            return await plan(conn, self.migrations, reapply_functions=reapply_functions)

    async def migrate(self, *, reapply_functions: bool = False) -> list[Pending]:
        """Apply the pending migrations and function files over a separate connection that bypasses PgBouncer."""
        settings = self.settings
        patience = Patience(
            lock_timeout_ms=settings.migration_lock_timeout_ms, give_up_after_s=settings.migration_wait_s
        )
        async with self.direct_database() as direct:
            name = f"{settings.service}-migrate"
            conn = await direct.connect(application_name=name)
            try:
                waits = LockWaits(patience, partial(direct.connect, application_name=f"{name}-watch"))
                return await migrate(conn, self.migrations, reapply_functions=reapply_functions, waits=waits)
            finally:
                await conn.close()

    @asynccontextmanager
    async def direct_connection(self) -> AsyncGenerator[asyncpg.Connection[Any]]:
        """Open a connection of its own that bypasses PgBouncer, for changes of the schema."""
        async with self.direct_database() as direct:
            conn = await direct.connect(application_name=f"{self.settings.service}-migrate")
            try:
                yield conn
            finally:
                await conn.close()

    @asynccontextmanager
    async def direct_database(self) -> AsyncGenerator[Database]:
        """Return the database, or open another pool that bypasses PgBouncer."""
        settings = self.settings
        if settings.direct_url is not None:
            direct = await Database.open(settings.direct_url.get_secret_value(), min_size=0, max_size=1)
            try:
                yield direct
            finally:
                await direct.close()
        elif settings.pgbouncer:
            raise MigrationError(
                "the schema must be changed, which is not possible through PgBouncer, because the lock of the migration "
                "belongs to one session: set ONCEWARD_DIRECT_URL to the URL of PostgreSQL itself"
            )
        else:
            yield self.database
