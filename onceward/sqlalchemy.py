"""A SQLAlchemy session inside a handler's transaction.

    async with session_of(tx) as session:
        session.add(Order(id=7))

The session uses the connection of `tx`, which already has an open transaction, and never begins or ends one itself:
what the session writes is committed together with everything else that the handler causes. So `session.commit()` only
flushes. Raise an exception to roll everything back, or use `session.begin_nested()` for a part. Needs SQLAlchemy 2
(`pip install sqlalchemy[asyncio]`). Synchronous code gets a session with `await session.run_sync(function)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.pool import NullPool

from onceward.db import Connection, RawJson, Transaction, dump_json
from onceward.errors import OncewardError

__all__ = [
    "SessionRolledBack",
    "session_of",
]


class SessionRolledBack(OncewardError):
    """The session was rolled back, but its transaction belongs to the handler. Raise from the handler instead."""


class HandlerDialect(PGDialect_asyncpg):
    """SQLAlchemy's dialect for asyncpg, for a connection that belongs to a handler: it is neither changed nor
    closed."""

    supports_statement_cache = True

    async def setup_asyncpg_json_codec(self, conn: Any) -> None:
        """Keep the codecs of the pool, which convert json and jsonb to Python values."""

    async def setup_asyncpg_jsonb_codec(self, conn: Any) -> None:
        """Keep the codecs of the pool, which convert json and jsonb to Python values."""

    def do_close(self, dbapi_connection: Any) -> None:
        """Leave the connection open: the worker returns it to its pool."""

    def do_terminate(self, dbapi_connection: Any) -> None:
        """Leave the connection open: the worker returns it to its pool."""


_connection: ContextVar[Connection] = ContextVar("connection of the session that is being opened")


@asynccontextmanager
async def session_of(tx: Transaction) -> AsyncGenerator[AsyncSession]:
    """Open a session in the transaction of a handler. The end of the block flushes the session."""
    token = _connection.set(tx.conn)
    rolled_back = False

    def note_rollback(_session: Session, ended: SessionTransaction) -> None:
        nonlocal rolled_back
        rolled_back = rolled_back or not ended.nested

    try:
        async with AsyncSession(_engine(), expire_on_commit=False) as session:
            event.listen(session.sync_session, "after_soft_rollback", note_rollback)
            await session.connection()  # opened while the variable has this connection
            yield session
            await session.flush()
    finally:
        _connection.reset(token)
    if rolled_back:
        raise SessionRolledBack(
            "the session was rolled back, which a session of a handler cannot do alone: raise an exception to roll back"
            " everything, or use `async with session.begin_nested()` for a part"
        )


@cache
def _engine() -> AsyncEngine:
    """Return the engine that compiles the statements of all sessions. It owns no connection."""

    async def current_connection() -> Connection:
        return _connection.get()

    registry.register("postgresql.onceward_handler", __name__, HandlerDialect.__name__)
    return create_async_engine(
        "postgresql+onceward_handler://",
        async_creator=current_connection,
        poolclass=NullPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",  # the handler's transaction is open already
        json_serializer=_write_json,
        json_deserializer=_read_json,
    )


def _write_json(value: Any) -> RawJson:
    return RawJson(dump_json(value))


def _read_json(value: Any) -> Any:
    """Return the value as it is: the codec of the pool has already read the JSON."""
    return value
