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
    ENGINE_ROLE,
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
from onceward.db.privileges import missing_privileges
from onceward.db.roles import login_of, prepare_login
from onceward.feature import Migrations
from onceward.settings import Settings

if TYPE_CHECKING:
    from onceward.db.embedded import EmbeddedPostgres

OLDEST_SERVER = 150000


class OldServer(DatabaseError):
    """The server is older than PostgreSQL 15."""


class ConfiguredDatabase:
    """The database between `open` and `close`, with its pending migrations."""

    def __init__(self, settings: Settings, migrations: Sequence[Migrations] = (), *, as_owner: bool = False) -> None:
        """`as_owner`: sessions act as the login that owns the tables, not as the engine."""
        self.settings = settings
        self.as_owner = as_owner
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
        if settings.database_url is None:
            url = await self._start_embedded()
        elif self.as_owner and settings.migration_url is not None:
            url = settings.migration_url.get_secret_value()
        else:
            url = settings.database_url.get_secret_value()
        self._database = await wait_for_server(partial(self._connect, url), limit_s=wait_s)
        return self._database

    async def _connect(self, url: str) -> Database:
        settings = self.settings
        database = await Database.open(
            url,
            max_size=settings.pool_max,
            pgbouncer=settings.pgbouncer and not (self.as_owner and settings.migration_url is not None),
            application_name=settings.service,
            role=None if self.as_owner else ENGINE_ROLE,
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
        try:
            async with self.database.acquire() as conn:
                return await plan(conn, self.migrations, reapply_functions=reapply_functions)
        except asyncpg.InsufficientPrivilegeError:  # the first migration, which grants this, was interrupted
            async with self.direct_connection() as conn:
                return await plan(conn, self.migrations, reapply_functions=reapply_functions)

    async def missing_privileges(self) -> list[str]:
        """Return the privileges and policies that `migrate` would create again."""
        try:
            async with self.database.acquire() as conn:
                return await missing_privileges(conn)
        except asyncpg.InsufficientPrivilegeError:  # that of the engine's role on the stored list is missing too
            async with self.direct_connection() as conn:
                return await missing_privileges(conn)

    async def migrate(self, *, reapply_functions: bool = False) -> list[Pending]:
        """Apply the pending migrations and function files as the login that owns the tables, without PgBouncer.

        Afterwards the login of this process may act as the roles of the engine, and its sessions do.
        """
        settings = self.settings
        patience = Patience(
            lock_timeout_ms=settings.migration_lock_timeout_ms, give_up_after_s=settings.migration_wait_s
        )
        async with self.direct_database() as direct:
            name = f"{settings.service}-migrate"
            conn = await direct.connect(application_name=name)
            try:
                waits = LockWaits(patience, partial(direct.connect, application_name=f"{name}-watch"))
                applied = await migrate(conn, self.migrations, reapply_functions=reapply_functions, waits=waits)
                if self._runtime_url is not None:
                    await prepare_login(conn, self._runtime_url)
            finally:
                await conn.close()
        await self.database.act_as_engine()
        return applied

    @property
    def has_runtime_login(self) -> bool:
        """Return whether migrations and running processes use different logins."""
        return self._runtime_url is not None

    @property
    def _runtime_url(self) -> str | None:
        """Return the URL of running processes, if migrations use another login."""
        settings = self.settings
        if settings.database_url is None or settings.migration_url is None:
            return None
        runtime, owner = (each.get_secret_value() for each in (settings.database_url, settings.migration_url))
        return None if login_of(runtime) == login_of(owner) else runtime

    @asynccontextmanager
    async def direct_connection(self) -> AsyncGenerator[asyncpg.Connection[Any]]:
        """Open a connection for changes of the schema: as the login that owns the tables, without PgBouncer."""
        async with self.direct_database() as direct:
            conn = await direct.connect(application_name=f"{self.settings.service}-migrate")
            try:
                yield conn
            finally:
                await conn.close()

    @asynccontextmanager
    async def direct_database(self) -> AsyncGenerator[Database]:
        """Open a pool whose sessions act as the login that owns the tables, and bypass PgBouncer."""
        settings = self.settings
        if settings.migration_url is None and settings.pgbouncer:
            raise MigrationError(
                "the schema must be changed, which is not possible through PgBouncer, because the lock of the "
                "migration belongs to one session: set ONCEWARD_MIGRATION_URL to the URL of PostgreSQL itself"
            )
        url = self.database.url if settings.migration_url is None else settings.migration_url.get_secret_value()
        direct = await Database.open(url, min_size=0, max_size=1)
        try:
            yield direct
        finally:
            await direct.close()
