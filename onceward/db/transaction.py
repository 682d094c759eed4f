"""A transaction with its role, organization and cause. `Tx` builds on it.

One round trip opens the transaction and sets role and organization. One round trip runs the last statements and
commits. If the connection breaks during COMMIT, the outcome is unknown and `OutcomeUnknown` is raised. COMMIT is never
retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from uuid import UUID

import asyncpg
import structlog

from onceward.background.tasks import spawn
from onceward.db.callers import CALLER
from onceward.db.errors import BROKEN, OutcomeUnknown, RolledBack, TransactionEnded, Unavailable
from onceward.db.join import ENDED, REFUSALS, SWALLOWED, Join
from onceward.db.lost import ended_the_session, is_gone

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection
Role = Literal["engine", "app"]

log = structlog.get_logger(__name__)


def ended_and_failed(failure: BaseException) -> TransactionEnded:
    """Return the error for a handler that ended its own transaction before it failed: a retry could repeat its
    effects."""
    ended = TransactionEnded(
        f"the handler ended its own transaction and then failed ({type(failure).__name__}). {ENDED}"
    )
    ended.__cause__ = failure
    return ended.with_traceback(failure.__traceback__)


class Cause(NamedTuple):
    """The work that caused this transaction. `id` is the work id of an event, job, message or delivery."""

    kind: str
    id: int

    def key(self, action: str) -> str:
        """Return the idempotency key for a call to an outside service. Retries and replays use the same key."""
        return f"{self.kind}:{self.id}:{action}"


def quote(text: str) -> str:
    """Return a string as an SQL literal, for statements that share a round trip and cannot have parameters."""
    if "\x00" in text:
        raise ValueError("PostgreSQL cannot store the character NUL in text")
    return "'" + text.replace("'", "''") + "'" if "\\" not in text else " E'" + _escape(text) + "'"


def literal(value: UUID | datetime | str | bytes | float | None) -> str:
    """Return a value as an SQL literal, like `quote`. Bytes double in size, so send large ones as a parameter."""
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case bytes():
            return f"'\\x{value.hex()}'"
        case _:
            return quote(str(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


async def to_its_end(conn: Connection, work: Coroutine[Any, Any, Any]) -> None:
    """Wait for a rollback, which goes on if the caller is cancelled once more: the connection must not be used before.

    A server of ASGI applications cancels a request whose client has gone at every `await`, so also here. A rollback
    that fails after a cancellation does not take its place: the code that cancelled the task waits for its end.
    """
    undone = sys.exception()
    pooled: Any = conn if hasattr(conn, "take_unfinished") and not is_gone(conn) else None
    rollback = spawn(_after(None if pooled is None else pooled.take_unfinished(), work))
    try:
        await asyncio.shield(rollback)
    except asyncio.CancelledError:
        if pooled is not None and not rollback.done() and not is_gone(conn):
            pooled.note_unfinished(rollback)
        raise
    except Exception as error:
        if isinstance(undone, asyncio.CancelledError):
            raise asyncio.CancelledError(*undone.args) from error
        raise


async def _after(earlier: asyncio.Future[Any] | None, work: Coroutine[Any, Any, Any]) -> None:
    """Roll back when an earlier rollback has ended, for example that of a savepoint."""
    if earlier is not None:
        await asyncio.wait({earlier})
    await work


class Transaction:
    """A transaction on one connection. `after_commit` registers calls that follow the commit.

    Use it as a context: `async with tx:` opens it, unless it is open. The end of the block commits it, unless the block
    has done so; an exception rolls it back.
    """

    __slots__ = (
        "_after",
        "_earlier",
        "_idle_limit_s",
        "_join",
        "_lock_timeout_s",
        "_opened",
        "cause",
        "conn",
        "organization",
        "role",
        "was_ended",
    )

    def __init__(
        self,
        conn: Connection,
        *,
        role: Role = "app",
        organization: UUID | None = None,
        cause: Cause | None = None,
        lock_timeout_s: float | None = None,
        idle_limit_s: float | None = None,
    ) -> None:
        self.conn = conn
        self.role: Role = role
        self.organization = organization
        self.cause = cause
        self._after: list[Callable[[], None]] = []
        self._lock_timeout_s = lock_timeout_s
        self._idle_limit_s = idle_limit_s
        """How long the transaction may wait for its next statement, or 0 for any time; None is the limit of the
        session."""
        self._opened = False
        self._earlier: list[Transaction] = []
        """The transactions that this one continued, in their order: they commit with it."""
        self._join: Join | None = None
        """How this one continues the one before it, if its first statement carries that."""
        self.was_ended = False
        """Whether `rollback` found that the handler had ended the transaction, so that its effects may be committed."""

    # -- statements ------------------------------------------------------------------------------------------

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        return await self.conn.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        return await self.conn.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self.conn.fetchval(query, *args)

    async def execute(self, query: str, *args: Any) -> str:
        return await self.conn.execute(query, *args)

    async def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        await self.conn.executemany(query, rows)

    def after_commit(self, call: Callable[[], None]) -> None:
        """Run `call` after the commit has succeeded. It does not run after a rollback."""
        self._after.append(call)

    # -- opening and closing -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._opened

    async def __aenter__(self) -> Self:
        if not self._opened:
            await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and self._opened:
                await self.commit()
        finally:
            if self._opened:
                await to_its_end(self.conn, self.rollback())

    async def open(self, first: str = "", last: str = "") -> str:
        """Begin the transaction and set role and organization, in one round trip. Return the last command tag.

        The same round trip runs the statements `first` as the engine, before role and organization are set, and `last`
        after.
        """
        try:
            command_tag = await self.conn.execute(self.opening(first, last))
        except BROKEN as error:
            raise Unavailable(f"could not open a transaction: {error}") from error
        except BaseException:
            # Cancelled, or refused after BEGIN: the server may have begun the transaction, which must not stay open.
            self._opened = True
            await to_its_end(self.conn, self.rollback())
            self.was_ended = False  # no handler has run in it
            raise
        self._opened = True
        return command_tag

    async def take_over(self, other: Transaction, first: str) -> None:
        """Continue the open transaction `other` with the role, organization and cause of this one.

        From now on this transaction commits or rolls back. The statement `first` shares the round trip.
        """
        try:
            await self.conn.execute(f"{first}; {self._settings()}")
        except BROKEN as error:
            raise Unavailable(f"could not continue the open transaction: {error}") from error
        other._opened = False
        self._opened = True

    async def join(self, other: Transaction, *, first: str, last: str) -> str:
        """Continue the open transaction `other`, whose handler has ended, with the organization and cause of this one.

        Both commit together, and the calls of `after_commit` of both follow that commit. Both have a cause and the same
        role. The same round trip runs the statements `first` as the engine, and `last` as the app. Return the last
        command tag.
        """
        self._must_share(other)
        try:
            command_tag = await self.conn.execute(f"{other.leaving()}; {first}; {self._settings()}; {last}")
        except BROKEN as error:
            raise Unavailable(f"could not continue the open transaction: {error}") from error
        except asyncpg.InFailedSQLTransactionError as error:
            raise RolledBack(SWALLOWED) from error
        except asyncpg.PostgresError as error:
            if error.sqlstate in REFUSALS:
                raise REFUSALS[error.sqlstate](f"{error}. {ENDED}") from error
            raise
        self._follow(other)
        return command_tag

    def follow(self, other: Transaction) -> None:
        """Continue the open transaction `other` like `join`, from the next statement on: that statement carries what
        this needs.

        Its error then says whether it was this that failed (`has_begun`).
        """
        before, cause = self._must_share(other)
        join = Join(f"{before.kind}:{int(before.id)}", f"{cause.kind}:{int(cause.id)}", self.organization)
        pooled: Any = self.conn
        pooled.send_with_next(join)
        self._follow(other)
        self._join = join

    def _must_share(self, other: Transaction) -> tuple[Cause, Cause]:
        before = other.cause_in_session
        if before is None or self.cause is None or (other.role, self.role) != ("app", "app"):
            raise ValueError("transactions that share a commit act for an app and have a cause each")
        return before, self.cause

    def _follow(self, other: Transaction) -> None:
        other._opened = False
        self._earlier, other._earlier = [*other._earlier, other], []
        self._opened = True

    @property
    def has_begun(self) -> bool:
        """Whether the session acts for this transaction: it opened it, or a statement has carried its `follow`."""
        return self._join is None or self._join.took_effect

    @property
    def cause_in_session(self) -> Cause | None:
        """The cause that the session has: of this transaction, or of the last one before it that sent a statement."""
        if self.has_begun:
            return self.cause
        return next((each.cause for each in reversed(self._earlier) if each.has_begun), None)

    def _leave_unsent(self) -> None:
        """Forget the `follow` of this transaction if no statement carried it: the engine's next statement needs
        none."""
        if not self.has_begun:
            pooled: Any = self.conn
            pooled.send_with_next(None)

    def opening(self, first: str = "", last: str = "") -> str:
        """Return the SQL text that opens the transaction."""
        return f"begin; {first and f'{first}; '}{self._settings()}{last and f'; {last}'}"

    def _settings(self) -> str:
        """Return the statements that set role, organization and cause."""
        timeout = (
            "" if self._lock_timeout_s is None else f"set local lock_timeout = {int(self._lock_timeout_s * 1000)}; "
        )
        if self._idle_limit_s is not None:
            timeout += f"set local idle_in_transaction_session_timeout = {int(self._idle_limit_s * 1000)}; "
        if (caller := CALLER.get()) is not None and caller.statement_timeout_s is not None:
            timeout += f"set local statement_timeout = {int(caller.statement_timeout_s * 1000)}; "
        role = "set local role onceward_app; " if self.role == "app" else ""
        organization = "" if self.organization is None else self.organization
        cause = "" if self.cause is None else f"; set local onceward.cause = '{self.cause.kind}:{int(self.cause.id)}'"
        return f"{timeout}{role}set local onceward.organization = '{organization}'{cause}"

    async def commit(self, last: str = "", *, then: Transaction | None = None) -> None:
        """Run the statements `last` as the engine and commit, in one round trip. An error in `last` prevents the
        commit.

        The same round trip opens the transaction `then` on the same connection, after the commit.
        """
        # PostgreSQL rolls back a transaction in which a statement failed, even on COMMIT. Any statement before COMMIT
        # then fails; without such a statement, the command tag is ROLLBACK.
        if is_gone(self.conn):
            raise Unavailable("the connection was lost before COMMIT was sent")
        if last:
            last = f"{self.leaving()}; {last}; "
        elif not self.conn.is_in_transaction():
            self._opened = False
            self._after.clear()
            raise TransactionEnded(ENDED)
        script = f"{last}commit" if then is None else f"{last or 'reset role; '}commit; {then.opening()}"
        try:
            command_tag = await self.conn.execute(script)
        except BROKEN as error:
            self._leave()
            raise OutcomeUnknown("the connection was lost during COMMIT") from error
        except asyncpg.InFailedSQLTransactionError as error:
            raise RolledBack(SWALLOWED) from error
        except asyncpg.PostgresError as error:
            if error.sqlstate in REFUSALS:
                raise REFUSALS[error.sqlstate](f"{error}. {ENDED}") from error
            if ended_the_session(error):
                self._leave()
                raise OutcomeUnknown("PostgreSQL ended the session during COMMIT") from error
            if not self.conn.is_in_transaction():
                # A deferred constraint refused the COMMIT itself: PostgreSQL has rolled back, and no handler has ended
                # anything.
                self._opened = False
                self._after.clear()
            raise
        self._opened = False
        if then is None and command_tag == "ROLLBACK":
            self._after.clear()
            raise RolledBack(SWALLOWED)
        if then is not None:
            then._opened = True
        for each in self._take_earlier():
            each._follow_commit()
        self._follow_commit()

    def _follow_commit(self) -> None:
        self.committed()
        calls, self._after = self._after, []
        for call in calls:
            try:
                call()
            except Exception:
                # What was committed stays so, and the other calls follow.
                cause = None if self.cause is None else f"{self.cause.kind}:{self.cause.id}"
                log.exception("after_commit.failed", cause=cause)

    def _take_earlier(self) -> list[Transaction]:
        earlier, self._earlier = self._earlier, []
        return earlier

    def leaving(self) -> str:
        """Return the SQL text with which the engine takes over from a handler.

        It raises an error if the handler has ended the transaction or changed its role: the cause is set for this
        transaction only.
        """
        self._leave_unsent()
        cause = self.cause_in_session
        if cause is None:
            return "reset role"
        role = "'onceward_app'" if self.role == "app" else "null"
        return f"select onceward.check_transaction('{cause.kind}:{int(cause.id)}', {role}); reset role"

    def committed(self) -> None:
        """Called after the commit has succeeded, before the calls of `after_commit`."""

    async def rollback(self) -> None:
        """Roll back. If the connection is lost, PostgreSQL has rolled back already."""
        if not self._opened:
            return
        self._leave_unsent()
        cause = self.cause_in_session
        self._opened = False
        self._after.clear()
        self.was_ended = not is_gone(self.conn) and not self.conn.is_in_transaction()
        try:
            if cause is None or self.was_ended:
                await self.conn.execute("rollback")
            else:
                await self._check_and_roll_back(cause)
        except BROKEN:
            self._leave()

    async def _check_and_roll_back(self, cause: Cause) -> None:
        """Note whether the open transaction is another one, which the handler has begun."""
        try:
            await self.conn.execute(
                f"select onceward.check_transaction('{cause.kind}:{int(cause.id)}', null); rollback"
            )
        except asyncpg.PostgresError as error:  # also if a statement of the handler failed: then the check cannot run
            if ended_the_session(error):
                raise
            self.was_ended = error.sqlstate in REFUSALS
            await self.conn.execute("rollback")

    @contextlib.asynccontextmanager
    async def savepoint(self, name: str) -> AsyncGenerator[None]:
        """Undo the block if it raises: its statements, its role and organization, and its `after_commit` calls."""
        registered, role, organization = len(self._after), self.role, self.organization
        await self.conn.execute(f"savepoint {name}")
        try:
            yield
            await self.conn.execute(f"release savepoint {name}")
        except BaseException:
            del self._after[registered:]
            self.role, self.organization = role, organization
            if not is_gone(self.conn):
                await to_its_end(self.conn, self.conn.execute(f"rollback to savepoint {name}"))
            raise

    async def rollback_to(self, savepoint: str) -> None:
        """Undo what followed the savepoint, and continue as the engine."""
        await self.conn.execute(f"rollback to savepoint {savepoint}; reset role")
        self._after.clear()
        self.role = "engine"

    def _leave(self) -> None:
        """Terminate the connection. PostgreSQL then decides the outcome of the current statement."""
        self._opened = False
        self._after.clear()
        with contextlib.suppress(asyncpg.InterfaceError):  # the pool has already removed the connection
            self.conn.terminate()

    async def become_engine(self) -> None:
        """Bypass row-level security until the end of the transaction. Only for the engine's own statements."""
        await self.conn.execute("reset role")
        self.role = "engine"

    async def hand_over(self, last: str) -> None:
        """Run the statements `last` as the engine after the handler has ended, and go on as the engine."""
        try:
            await self.conn.execute(f"{self.leaving()}; {last}")
        except asyncpg.PostgresError as error:
            if error.sqlstate in REFUSALS:
                raise REFUSALS[error.sqlstate](f"{error}. {ENDED}") from error
            raise
        self.role = "engine"

    async def become_app(self) -> None:
        """Apply row-level security again."""
        await self.conn.execute("set local role onceward_app")
        self.role = "app"

    async def set_organization(self, organization: UUID) -> None:
        """Restrict the rest of the transaction to the rows of this organization."""
        await self.conn.execute("select set_config('onceward.organization', $1, true)", str(organization))
        self.organization = organization
