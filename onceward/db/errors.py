"""What can go wrong with the database, by name.

DatabaseError
├── Unavailable        no connection could be had, or it broke before COMMIT was sent: nothing happened
├── RolledBack         COMMIT was answered by ROLLBACK: a statement had failed and its error was swallowed
├── OutcomeUnknown     the connection broke while COMMIT was under way: it may or may not have happened
└── MigrationError     the schema cannot be brought, or trusted, to where this code needs it
    ├── NewerSchema    the database was migrated by newer code than this
    ├── ChangedFile    a migration was edited after it had been applied
    └── BrokenLine     numbers missing, doubled, or not starting at 0001
"""

from __future__ import annotations


class DatabaseError(Exception):
    """Anything this package raises by itself; PostgreSQL's own errors pass through as asyncpg raised them."""


class Unavailable(DatabaseError):
    """Nothing was changed; it is safe to try again."""


class OutcomeUnknown(DatabaseError):
    """The connection was lost during COMMIT. Look the effect up by its key before trying again."""


class RolledBack(DatabaseError):
    """Nothing was committed. Let the error of a failed statement pass, or put the statement under a savepoint."""


class MigrationError(DatabaseError):
    """The message names the owner, the file and what to do."""


class NewerSchema(MigrationError):
    """Refuse to run old code on a database that newer code has migrated."""


class ChangedFile(MigrationError):
    """An applied migration is history: write a new file instead of editing it."""


class BrokenLine(MigrationError):
    """A line of migrations is numbered 0001, 0002, ... without holes."""
