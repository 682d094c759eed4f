"""A connection of the pool: it looks at the statements of handlers, and sends a `Join` together with a handler's
first one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import asyncpg

from onceward.db.built_in_types import LearnedConnection
from onceward.db.held_writes import HoldingTransport
from onceward.db.join import PREPARE, Join
from onceward.db.statement_watch import Watch


class PooledConnection(LearnedConnection):
    """A pooled connection that is not reset on release, because all our settings are local to a transaction.

    A reset would cost a round trip per use: a third of the time of a small handler.
    While it is watched, every statement is looked at before it is sent, whatever library sends it. A `Join` is sent
    with the next statement: in the same packet if that statement is prepared already, and before it otherwise.
    """

    __slots__ = ("_join", "_join_statement", "_sends_join", "_unfinished", "_watch")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch: Watch | None = None
        self._unfinished: asyncio.Future[Any] | None = None
        self._join: Join | None = None
        self._sends_join = False
        """Whether the transport holds the join, so that the next statement carries it."""
        self._join_statement: str | None = None
        """The name of the prepared statement that joins, in this session."""

    def get_reset_query(self) -> str:
        return ""

    def note_unfinished(self, rollback: asyncio.Future[Any]) -> None:
        """Remember a rollback that nobody waits for, because its caller was cancelled once more."""
        self._unfinished = rollback

    def take_unfinished(self) -> asyncio.Future[Any] | None:
        """Return the rollback that is still under way, and forget it."""
        unfinished, self._unfinished = self._unfinished, None
        return unfinished

    def watch(self, watch: Watch | None) -> None:
        """Let `watch` look at every statement from now on; None ends it."""
        self._watch = watch

    def send_with_next(self, join: Join | None) -> None:
        """Send this join with the next statement, instead of one that was not sent yet; None sends none."""
        self._join = join

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        if not args:
            if self._watch is not None:
                self._watch.look(query)  # with arguments it becomes a prepared statement, see below
            if self._join is not None:
                return self._after_join(self._join, super().execute, query, timeout=timeout)
        return super().execute(query, *args, timeout=timeout)

    def _execute(self, query: str, args: Any, limit: int, timeout: float | None, **options: Any) -> Any:
        """Every statement with arguments or rows passes here."""
        if self._join is None:
            return super()._execute(query, args, limit, timeout, **options)  # pyright: ignore
        return self._execute_with_join(self._join, query, args, limit, timeout, **options)

    def _get_statement(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Every prepared statement passes here, also that of a cursor or of SQLAlchemy."""
        if self._watch is not None:
            self._watch.look(query)
        if self._join is not None and not self._sends_join:
            return self._after_join(self._join, super()._get_statement, query, *args, **kwargs)  # pyright: ignore
        return super()._get_statement(query, *args, **kwargs)  # pyright: ignore

    def _copy_in(self, *args: Any, **kwargs: Any) -> Any:
        if self._join is not None:
            return self._after_join(self._join, super()._copy_in, *args, **kwargs)  # pyright: ignore
        return super()._copy_in(*args, **kwargs)  # pyright: ignore

    def _copy_out(self, *args: Any, **kwargs: Any) -> Any:
        if self._join is not None:
            return self._after_join(self._join, super()._copy_out, *args, **kwargs)  # pyright: ignore
        return super()._copy_out(*args, **kwargs)  # pyright: ignore

    async def _after_join(self, join: Join, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Send the join in a round trip of its own, and then do this."""
        join.raise_refusal()
        try:
            await super().execute(join.script)
        except asyncpg.PostgresError as error:
            raise join.refusal_of(error) or error from error
        self._has_joined(join)
        return await call(*args, **kwargs)

    async def _execute_with_join(
        self, join: Join, query: str, args: Any, limit: int, timeout: float | None, **options: Any
    ) -> Any:
        """Send the join and a statement together, if asyncpg has prepared the statement before."""
        join.raise_refusal()
        record_class = options.get("record_class") or self._protocol.get_record_class()  # pyright: ignore
        key = (query, record_class, options.get("ignore_custom_codec", False))
        run = cast("Callable[..., Any]", super()._execute)  # pyright: ignore
        if self._stmt_cache.get(key) is None:  # pyright: ignore
            return await self._after_join(join, run, query, args, limit, timeout, **options)
        if self._join_statement is None:
            self._join_statement = await self._prepare_join(join)
        transport: HoldingTransport = self._transport  # pyright: ignore
        transport.hold(join.message(self._join_statement))
        self._sends_join = True
        try:
            result: Any = await run(query, args, limit, timeout, **options)
        except BaseException as error:
            if not transport.release():  # otherwise asyncpg refused an argument, and nothing was sent
                if (refusal := join.refusal_of(error)) is not None:
                    raise refusal from error
                self._has_joined(join)
            raise
        finally:
            self._sends_join = False
        self._has_joined(join)
        return result

    async def _prepare_join(self, join: Join) -> str:
        """Prepare the statement that joins, once in a session, and return its name."""
        name = str(self._get_unique_id("join"))  # pyright: ignore
        try:
            await super().execute(PREPARE.format(name))
        except asyncpg.PostgresError as error:
            raise join.refusal_of(error) or error from error
        return name

    def _has_joined(self, join: Join) -> None:
        join.took_effect = True
        if self._join is join:
            self._join = None
