"""A transaction with its role, organization and cause. `Tx` builds on it.

One round trip opens the transaction and sets role and organization. One round trip runs the last statements and commits.
If the connection breaks during COMMIT, the outcome is unknown and `OutcomeUnknown` is raised. COMMIT is never retried.
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
    asyncpg.InternalClientError,  # the server ended the session while the next statement was being sent
    ConnectionError,
    OSError,
)
"""The exceptions that asyncpg raises when the connection fails, not the statement."""

SWALLOWED = (
    "nothing was committed: a statement of this transaction failed and the handler caught the error."
    " Do not catch the error, or run the statement in a savepoint"
)


@dataclass(frozen=True, slots=True)
class Cause:
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


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


class Transaction:
    """A transaction in progress. `after_commit` registers calls that follow the commit."""

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
        """Run `call` after the commit has succeeded. It does not run after a rollback."""
        self._after.append(call)

    # -- opening and closing -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._opened

    async def open(self) -> None:
        """Begin the transaction and set role and organization, in one round trip."""
        try:
            await self.conn.execute(self.opening())
        except BROKEN as error:
            raise Unavailable(f"could not open a transaction: {error}") from error
        self._opened = True

    async def join(self, first: str) -> None:
        """Join the open transaction of the connection. The statement `first` shares the round trip."""
        try:
            await self.conn.execute("; ".join((first, *self._settings())))
        except BROKEN as error:
            raise Unavailable(f"could not join the open transaction: {error}") from error
        self._opened = True

    def opening(self) -> str:
        """Return the SQL text that opens the transaction."""
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
        """Run the statements `last` as the engine and commit, in one round trip. An error in `last` prevents the commit.

        The same round trip opens the transaction `then` on the same connection, after the commit.
        """
        # PostgreSQL rolls back a transaction in which a statement failed, even on COMMIT. Any statement before COMMIT then
        # fails; without such a statement, the command tag is ROLLBACK.
        if is_gone(self.conn):
            raise Unavailable("the connection was lost before COMMIT was sent")
        script = "; ".join(
            ("reset role", last, "commit") if last else ("reset role", "commit") if then else ("commit",)
        )
        try:
            command_tag = await self.conn.execute(script if then is None else f"{script}; {then.opening()}")
        except BROKEN as error:
            raise OutcomeUnknown("the connection was lost during COMMIT") from error
        except asyncpg.InFailedSQLTransactionError as error:
            raise RolledBack(SWALLOWED) from error
        except asyncpg.PostgresError as error:
            if ended_the_session(error):
                raise OutcomeUnknown("PostgreSQL ended the session during COMMIT") from error
            raise
        self._opened = False
        if then is None and command_tag == "ROLLBACK":
            self._after.clear()
            raise RolledBack(SWALLOWED)
        if then is not None:
            then._opened = True
        for call in self._after:
            call()
        self._after.clear()

    async def rollback(self) -> None:
        """Roll back. If the connection is lost, PostgreSQL has rolled back already."""
        if not self._opened:
            return
        self._opened = False
        self._after.clear()
        try:
            await self.conn.execute("rollback")
        except BROKEN:
            self.abandon()

    def abandon(self) -> None:
        """Terminate the connection. PostgreSQL then decides the outcome of the current statement."""
        with contextlib.suppress(asyncpg.InterfaceError):  # the pool has already removed the connection
            self.conn.terminate()

    async def become_engine(self) -> None:
        """Bypass row-level security until the end of the transaction. Only for the engine's own statements."""
        await self.conn.execute("reset role")
        self.role = "engine"

    async def become_app(self) -> None:
        """Apply row-level security again."""
        await self.conn.execute("set local role onceward_app")
        self.role = "app"

    async def set_organization(self, organization: UUID) -> None:
        """Restrict the rest of the transaction to the rows of this organization."""
        await self.conn.execute("select set_config('onceward.organization', $1, true)", str(organization))
        self.organization = organization
