"""The connection pool, and two ways to use a connection: for single statements or for a transaction.

The server ends a session whose client has disappeared, so that the locks of a lost host are released within half a
minute. It also ends a session whose transaction has been idle for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import asyncpg
import orjson
import structlog

from onceward import exact_json
from onceward.background.loop import Loop
from onceward.background.tasks import Tasks
from onceward.db.built_in_types import LearnedConnection
from onceward.db.errors import FAILED, OUTAGE, RoleRefused, Unavailable
from onceward.db.lost import is_gone, note_lost_connection
from onceward.db.outage import Outage
from onceward.db.pooled_connection import PooledConnection
from onceward.db.refusal import explain_refusal
from onceward.db.servers import WATCH_EVERY_S, Servers
from onceward.db.transaction import Cause, Connection, Role, Transaction
from onceward.db.turns import Turn, Turns
from onceward.db.unreadable import read_json
from onceward.settings.database_url import servers_of

log = structlog.get_logger(__name__)

IDLE_LIMIT_S = 60.0
"""PostgreSQL ends a session whose transaction waits longer for its next statement.

Handlers with a longer timeout have a longer limit.
"""
IDLE_CONNECTION_S = 30.0
"""The pool closes a connection that nobody has used for so long."""
ENGINE_ROLE = "onceward_engine"
"""The role of every session of a process. It sees all organizations, owns nothing and cannot change the audit log."""

SESSION_SETTINGS = {
    "timezone": "UTC",
    "search_path": "public",  # the default starts with "$user", and a user named onceward would use our schema
    "jit": "off",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": str(int(IDLE_LIMIT_S * 1000)),
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_connection_check_interval": "10000",
}
"""Sent when a session opens. Behind PgBouncer, set them on the role instead (docs/pgbouncer.md)."""
CLAIM_SETTINGS = {
    "synchronous_commit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
}
"""Sent besides when a session for claims opens. Its statements are planned once: to plan the load of four messages took
four times as long as the load. Such a plan stays when the tables grow, so it must read through indexes in their order
even if it was made while the tables were empty."""


class RawJson(str):
    """Text that is already JSON. It is written to a json column unchanged."""

    __slots__ = ()


def dump_json(value: Any) -> str:
    """Return a value as JSON text for PostgreSQL."""
    if type(value) is RawJson:
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
    except TypeError:
        return exact_json.dumps(value)  # integers beyond 64 bits, which jsonb can store


async def prepare_session(conn: asyncpg.Connection[Any], *, decoder: Callable[[str], Any] = exact_json.loads) -> None:
    """Convert json and jsonb columns to and from Python values."""
    for name in ("json", "jsonb"):
        await conn.set_type_codec(name, encoder=dump_json, decoder=decoder, schema="pg_catalog", format="text")


def server_of(url: str) -> str:
    """Return the hosts and ports of a URL, for messages: never the user or the password."""
    try:
        return ", ".join(map(str, servers_of(url)))
    except ValueError:  # for example a port that is not a number
        return "the configured URL"


class Database:
    """The database of one process. Open it with `await Database.open(url)`, and close it at the end."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], servers: Servers, *, pgbouncer: bool) -> None:
        self.pool = pool
        self.url = servers.url
        self.pgbouncer = pgbouncer
        self._servers = servers
        self._watch = Loop("primary watch", servers.look, every_s=WATCH_EVERY_S, waits_first=True)
        self._most = pool.get_max_size()
        self._is_large = False
        """Whether the pool has more connections than it may have now."""
        self.turns = Turns(self._most)
        self._taken: dict[int, Turn] = {}
        """The turn of every borrowed connection, by its `id`."""
        self._waiting = 0
        self._returning = Tasks("return of connections")
        """Connections whose transaction is rolled back before they return to the pool."""
        self._outage = Outage()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        min_size: int = 1,
        max_size: int = 10,
        pgbouncer: bool = False,
        application_name: str = "onceward",
        connect_timeout_s: float = 10.0,
        role: str | None = None,
    ) -> Database:
        """Open a pool. Raises `Unavailable` with the reason if PostgreSQL cannot be reached.

        The sessions act as `role`, or as the login if none is given. Until the first migration the role does not exist,
        and they act as the login too: see `act_as_engine`. Behind PgBouncer the role is set on the login
        (docs/pgbouncer.md).
        """
        settings = {} if pgbouncer else {**SESSION_SETTINGS, "application_name": application_name}
        servers = Servers(url, role=None if pgbouncer else role)
        try:
            pool = await asyncpg.create_pool(
                url,
                connect=servers.connect,
                min_size=min_size,
                max_size=max_size,
                init=prepare_session,
                connection_class=PooledConnection,
                server_settings=settings,
                statement_cache_size=0 if pgbouncer else 256,
                timeout=connect_timeout_s,
                max_inactive_connection_lifetime=IDLE_CONNECTION_S,
            )
        except FAILED as error:
            raise Unavailable(f"cannot connect to PostgreSQL at {server_of(url)}: {explain_refusal(error)}") from error
        database = cls(pool, servers, pgbouncer=pgbouncer)
        if servers.several:
            await database._watch.start()
        return database

    async def act_as_engine(self) -> None:
        """Make sure that sessions act as the role of the pool. Raises `RoleRefused` if the login may not.

        Sessions that opened before the role existed act as the login: they are replaced.
        """
        if self._servers.role_refused:
            await self.pool.expire_connections()
            async with self.acquire():
                pass
        if self._servers.role_refused:
            raise RoleRefused(
                f"{self._servers.role_refused}: `onceward migrate` creates and grants the role, if its login may do"
                " so; `onceward doctor` prints the statements for an administrator"
            )

    async def close(self) -> None:
        """Wait up to 10 seconds for connections in use, then terminate them."""
        await self._watch.stop()
        try:
            async with asyncio.timeout(10):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()

    async def connect(
        self,
        *,
        application_name: str = "onceward",
        durable: bool = True,
        connection_class: type[LearnedConnection] = LearnedConnection,
    ) -> Connection:
        """Open a connection outside the pool, for long use: LISTEN, claims, migrations.

        Without `durable` a commit returns before it is on disk, and statements are planned once (`CLAIM_SETTINGS`). Use
        that only for claims, which a server crash may lose. Such a connection returns an `Unreadable` for JSON that
        Python cannot read: the claim of many rows must not fail.
        """
        settings = {} if self.pgbouncer else {**SESSION_SETTINGS, "application_name": application_name}
        if not durable and not self.pgbouncer:
            settings |= CLAIM_SETTINGS
        try:
            conn = await self._servers.connect(
                server_settings=settings,
                statement_cache_size=0 if self.pgbouncer else 256,
                timeout=10,
                connection_class=connection_class,
            )
        except OUTAGE as error:
            self._outage.note(error)
            raise Unavailable(f"no database connection was available: {error or type(error).__name__}") from error
        await prepare_session(conn, decoder=exact_json.loads if durable else read_json)
        return conn

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """Lend a pooled connection without a transaction."""
        conn = await self.borrow()
        try:
            yield conn
        except BaseException as error:
            note_lost_connection(error, conn)
            raise
        finally:
            await self.give_back(conn)

    async def borrow(self) -> Connection:
        """Return a pooled connection. The caller returns it with `give_back`. Callers get connections in turn."""
        self._waiting += 1
        try:
            turn = await self.turns.enter()
            try:
                conn = cast(Connection, await self.pool.acquire())
            except BaseException:
                self.turns.leave(turn)
                raise
            self._taken[id(conn)] = turn
        except OUTAGE as error:
            self._outage.note(error)
            raise Unavailable(f"no database connection was available: {error or type(error).__name__}") from error
        finally:
            self._waiting -= 1
        if self._outage.lasts:
            self._outage.over()
        return conn

    @property
    def is_away(self) -> bool:
        """Return whether new connections fail. Open connections may still work."""
        return self._outage.lasts

    async def give_back(self, conn: Connection) -> None:
        """Return a borrowed connection to the pool. A transaction that is still open on it is rolled back.

        A transaction stays open if its task is cancelled while it begins or ends, or if a handler began one by hand.
        asyncpg would roll it back too, and print a traceback of the loop. The rollback does not depend on the caller:
        a server of ASGI applications cancels a request whose client has gone at every `await`.
        """
        unfinished = None if is_gone(conn) else cast(PooledConnection, conn).take_unfinished()
        if is_gone(conn) or (unfinished is None and not conn.is_in_transaction()):
            await self._release(conn)
            return
        await asyncio.shield(self._returning.start(self._roll_back_and_release(conn, unfinished)))

    async def _roll_back_and_release(self, conn: Connection, unfinished: asyncio.Future[Any] | None) -> None:
        try:
            if unfinished is not None:
                await asyncio.wait({unfinished})
            if not is_gone(conn) and conn.is_in_transaction():
                await _roll_back(conn)
        finally:
            await self._release(conn)

    async def _release(self, conn: Connection) -> None:
        try:
            if self._is_large and not is_gone(conn):
                conn.terminate()
                self._is_large = self._excess > 0
            await self.pool.release(conn)  # pyright: ignore[reportArgumentType]
        finally:
            self.turns.leave(self._taken.pop(id(conn)))

    @property
    def most_connections(self) -> int:
        """Return how many connections the pool may have now."""
        return self._most

    async def resize(self, connections: int) -> None:
        """Change how many connections the pool may have, up to its `max_size`.

        Idle connections that are too many are closed now, those in use when they are returned.
        """
        connections = min(connections, self.pool.get_max_size())
        self.turns.change(connections - self._most)
        self._most = connections
        # asyncpg lends connected ones first, so this opens none.
        extra = [await self.pool.acquire() for _ in range(min(self._excess, self.pool.get_idle_size()))]
        for conn in extra:
            cast(Connection, conn).terminate()
            await self.pool.release(conn)
        self._is_large = self._excess > 0

    @property
    def _excess(self) -> int:
        return self.pool.get_size() - self._most

    @property
    def crowded(self) -> bool:
        """Return whether a caller waits for a connection, so that others should not keep theirs."""
        return self._waiting > 0

    @asynccontextmanager
    async def transaction(
        self, *, role: Role = "app", organization: UUID | None = None, cause: Cause | None = None
    ) -> AsyncGenerator[Transaction]:
        """Open a transaction. Commit when the block ends, roll back when it raises."""
        async with (
            self.acquire() as conn,
            Transaction(conn, role=role, organization=organization, cause=cause) as tx,
        ):
            yield tx

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        async with self.acquire() as conn:
            return await conn.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        async with self.acquire() as conn:
            return await conn.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        async with self.acquire() as conn:
            return await conn.fetchval(query, *args)

    async def execute(self, query: str, *args: Any) -> str:
        async with self.acquire() as conn:
            return await conn.execute(query, *args)


async def _roll_back(conn: Connection) -> None:
    pooled: Any = conn
    pooled.send_with_next(None)
    try:
        await conn.execute("rollback")
    except FAILED as error:
        log.info("connection.discarded", error=type(error).__name__)
        if not is_gone(conn):
            conn.terminate()
    except BaseException:
        # The caller was cancelled once more. The pool replaces a closed connection, and keeps one that is not returned
        # forever.
        if not is_gone(conn):
            conn.terminate()
        raise
