"""One open transaction, and what it acts for. The base that `Tx` builds on.

A transaction is opened in one round trip together with its role and organization, and closed in one together with
whatever statement must be the last before COMMIT. If the connection breaks while COMMIT is under way the outcome is
unknown, and said to be: nothing here ever tries a second time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import asyncpg

from onceward.db.errors import OutcomeUnknown, RolledBack, Unavailable
from onceward.db.lost import ended_the_session, is_gone

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection
Role = Literal["engine", "app"]

BROKEN = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server's parting word arrived while the next statement was on its way
    ConnectionError,
    OSError,
)
"""What asyncpg raises when the connection, rather than the statement, has failed."""

SWALLOWED = (
    "nothing was committed: a statement of this transaction failed and its error was swallowed."
    " Let the error pass, or run the statement under a savepoint"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What made this happen. `id` is the work id for events, jobs, messages and deliveries."""

    kind: str
    id: int

    def key(self, action: str) -> str:
        """The idempotency key for a call to the outside: stable over retries and replays."""
        return f"{self.kind}:{self.id}:{action}"


def quote(text: str) -> str:
    """A string as an SQL literal, for the statements that share a round trip and so cannot take parameters."""
    if "\x00" in text:
        raise ValueError("PostgreSQL text cannot hold the character NUL")
    return "'" + text.replace("'", "''") + "'" if "\\" not in text else " E'" + _escape(text) + "'"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


class Transaction:
    """A transaction in progress. Statements go through it; what must follow the commit is given to `after_commit`."""

    __slots__ = ("_after", "_opened", "cause", "conn", "organization", "role")

    def __init__(
        self,
        conn: Connection,
        *,
        role: Role = "app",
        organization: UUID | None = None,
        cause: Cause | None = None,
    ) -> None:
        self.conn = conn
        self.role: Role = role
        self.organization = organization
        self.cause = cause
        self._after: list[Callable[[], None]] = []
        self._opened = False

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
        """Run `call` once the commit is known to have happened; never for what rolled back."""
        self._after.append(call)

    # -- opening and closing -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._opened

    async def open(self) -> None:
        """BEGIN, role and organization in one round trip."""
        try:
            await self.conn.execute(self.opening())
        except BROKEN as error:
            raise Unavailable(f"could not open a transaction: {error}") from error
        self._opened = True

    async def join(self, first: str) -> None:
        """Go on in a transaction that the connection has open already; `first` shares the round trip."""
        try:
            await self.conn.execute("; ".join((first, *self._settings())))
        except BROKEN as error:
            raise Unavailable(f"could not go on in a transaction: {error}") from error
        self._opened = True

    def opening(self) -> str:
        """What opens it, as text."""
        return "; ".join(("begin", *self._settings()))

    def _settings(self) -> list[str]:
        parts: list[str] = []
        if self.role == "app":
            parts.append("set local role onceward_app")
        organization = "" if self.organization is None else str(self.organization)
        parts.append(f"set local onceward.organization = '{organization}'")
        if self.cause is not None:
            parts.append(f"set local onceward.cause = '{self.cause.kind}:{int(self.cause.id)}'")
        return parts

    async def commit(self, last: str = "", *, then: Transaction | None = None) -> None:
        """Commit; `last` are statements, run as the engine, that share the commit's round trip and can prevent it.

        `then` is opened on the same connection in the same round trip, after the commit.
        """
        # A transaction in which a statement failed ends by ROLLBACK, whatever it is told. Any statement before COMMIT then
        # fails; without one the answer tells.
        if is_gone(self.conn):
            raise Unavailable("the connection was lost before COMMIT was sent")
        script = "; ".join(
            ("reset role", last, "commit") if last else ("reset role", "commit") if then else ("commit",)
        )
        try:
            answer = await self.conn.execute(script if then is None else f"{script}; {then.opening()}")
        except BROKEN as error:
            raise OutcomeUnknown("the connection was lost during COMMIT") from error
        except asyncpg.InFailedSQLTransactionError as error:
            raise RolledBack(SWALLOWED) from error
        except asyncpg.PostgresError as error:
            if ended_the_session(error):
                raise OutcomeUnknown("PostgreSQL ended the session during COMMIT") from error
            raise
        self._opened = False
        if then is None and answer == "ROLLBACK":
            self._after.clear()
            raise RolledBack(SWALLOWED)
        if then is not None:
            then._opened = True
        for call in self._after:
            call()
        self._after.clear()

    async def rollback(self) -> None:
        """Undo everything. A connection that is already gone has rolled back by itself."""
        if not self._opened:
            return
        self._opened = False
        self._after.clear()
        try:
            await self.conn.execute("rollback")
        except BROKEN:
            self.abandon()

    def abandon(self) -> None:
        """Cut the connection: whatever was under way on it is PostgreSQL's to decide."""
        with contextlib.suppress(asyncpg.InterfaceError):  # the pool has already noticed that it is gone
            self.conn.terminate()

    async def become_engine(self) -> None:
        """Leave row-level security for the rest of the transaction: the engine's own statements only."""
        await self.conn.execute("reset role")
        self.role = "engine"

    async def become_app(self) -> None:
        """Go back under row-level security."""
        await self.conn.execute("set local role onceward_app")
        self.role = "app"

    async def set_organization(self, organization: UUID) -> None:
        """From here on the transaction sees and writes this organization's rows only."""
        await self.conn.execute("select set_config('onceward.organization', $1, true)", str(organization))
        self.organization = organization
