"""The errors of the database.

DatabaseError
├── Unavailable        no connection was available, or it broke before COMMIT was sent: nothing was changed
├── RolledBack         PostgreSQL answered COMMIT with ROLLBACK: a statement failed and the handler caught its error
├── OutcomeUnknown     the connection broke during COMMIT: it is unknown whether the commit happened
└── MigrationError     the schema does not fit this code and cannot be migrated
    ├── NewerSchema    newer code has migrated the database
    ├── ChangedFile    a migration was edited after it had been applied
    └── BrokenLine     migration numbers are missing, duplicated, or do not start at 0001
"""

from __future__ import annotations

from onceward.errors import OncewardError


class DatabaseError(OncewardError):
    """The base of the errors of this package. Errors of PostgreSQL are raised as asyncpg exceptions."""


class Unavailable(DatabaseError):
    """No database connection was available. Nothing was changed; a retry is safe."""


class OutcomeUnknown(DatabaseError):
    """The connection was lost during COMMIT. Look up the effect by its key before you retry."""


class RolledBack(DatabaseError):
    """Nothing was committed. Do not catch the error of a failed statement, or run the statement in a savepoint."""


class MigrationError(DatabaseError):
    """A migration failed or cannot be applied. The message names the owner, the file and what to do."""


class NewerSchema(MigrationError):
    """Newer code has migrated the database, so this older code refuses to run."""


class ChangedFile(MigrationError):
    """An applied migration was edited. Restore the file and write a new migration."""


class BrokenLine(MigrationError):
    """The migrations of an owner are not numbered 0001, 0002, ... without gaps."""
