"""The errors of the database.

DatabaseError
├── Unavailable        no connection was available, or it broke before COMMIT was sent: nothing was changed
├── RolledBack         PostgreSQL answered COMMIT with ROLLBACK: a statement failed and the handler caught its error
├── RoleRefused        the login may not act as the role of the engine
├── TransactionEnded   a handler ended its own transaction: what it wrote may be lost or committed
│   └── RoleChanged    a handler changed the role of its transaction: nothing is committed
├── TooManyRequests    too many requests of the same customer wait for a connection
├── OutcomeUnknown     the connection broke during COMMIT: it is unknown whether the commit happened
└── MigrationError     the schema does not fit this code and cannot be migrated
    ├── NewerSchema    newer code has migrated the database in a way that this code does not tolerate
    ├── ChangedFile    a migration was edited after it had been applied
    ├── MissingFile    a migration was deleted after it had been applied
    ├── LockNotAcquired   other sessions kept the tables of a migration for too long
    ├── ChangedSignature  a function file changes the arguments of an existing function
    └── BrokenLine     migration numbers are missing, duplicated, or do not start at 0001
"""

from __future__ import annotations

import asyncpg

from onceward.errors import OncewardError


class DatabaseError(OncewardError):
    """The base of the errors of this package. Errors of PostgreSQL are raised as asyncpg exceptions."""


class Unavailable(DatabaseError):
    """No database connection was available. Nothing was changed; a retry is safe."""


class TooManyRequests(DatabaseError):
    """Too many requests of the same customer wait for a connection. Nothing was changed; a retry is safe."""


class OutcomeUnknown(DatabaseError):
    """The connection was lost during COMMIT. Look up the effect by its key before you retry."""


class RoleRefused(DatabaseError):
    """The login may not act as the role of the engine, or the role does not exist."""


class RolledBack(DatabaseError):
    """Nothing was committed. Do not catch the error of a failed statement, or run the statement in a savepoint."""


class TransactionEnded(DatabaseError):
    """A handler ended its own transaction, by a statement or through a session of another library."""


class RoleChanged(TransactionEnded):
    """A handler changed the role of its transaction, which would bypass row-level security. Nothing is committed."""


class MigrationError(DatabaseError):
    """A migration failed or cannot be applied. The message names the owner, the file and what to do."""


class NewerSchema(MigrationError):
    """Newer code has migrated the database in a way that this code does not tolerate."""


class LockNotAcquired(MigrationError):
    """Other sessions kept the locks that a migration needs. Nothing of it was applied; a retry is safe."""


class ChangedFile(MigrationError):
    """An applied migration was edited. Restore the file and write a new migration."""


class MissingFile(MigrationError):
    """The file of an applied migration was deleted. Restore the file."""


class ChangedSignature(MigrationError):
    """A function file changes the arguments of a function. Give the changed function a new name."""


class BrokenLine(MigrationError):
    """The migrations of an owner are not numbered 0001, 0002, ... without gaps."""


# The failures of a database call, each set named once. TimeoutError is an OSError, so every set contains it.

BROKEN = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server ended the session while the next statement was being sent
    ConnectionError,
    OSError,
)
"""The exceptions that asyncpg raises when the connection fails, not the statement."""

OUTAGE = (
    *BROKEN,
    Unavailable,
    asyncpg.AdminShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
"""The exceptions that are raised while the server is down, starting, unreachable or out of connections."""

FAILED = (*BROKEN, DatabaseError, asyncpg.PostgresError)
"""Every exception by which a database call fails. A loop catches these, logs the failure and tries again."""
