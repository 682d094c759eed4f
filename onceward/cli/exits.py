"""The exit codes of commands, and the exit code of each failure. docs/cli.md shows the same table."""

from __future__ import annotations

from enum import IntEnum

from onceward.errors import OncewardError
from onceward.extras import ExtraMissing
from onceward.feature import Features

TRACEBACK_VARIABLE = "ONCEWARD_TRACEBACK"
"""Set by the option `--traceback`: an expected failure shows its whole traceback."""


class Exit(IntEnum):
    """The exit codes of commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    SETTINGS = 3
    DATABASE = 4
    MIGRATION = 5
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "done",
    Exit.FAILED: "the command ran and failed: a check or a run failed, or an address is in use",
    Exit.USAGE: "the command line is wrong: unknown command, option or app",
    Exit.SETTINGS: "a setting is invalid, or needs an extra that is not installed",
    Exit.DATABASE: "the database is unreachable or refused the connection",
    Exit.MIGRATION: "the schema cannot be migrated, or does not match this version",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandFailed(OncewardError):
    """A command failed. Carries a message for the user and an exit code for scripts."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def lacks_schema(error: BaseException) -> bool:
    """Return whether a table, column or function does not exist that this version needs."""
    import asyncpg

    missing = (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError, asyncpg.UndefinedColumnError)
    return isinstance(error, (*missing, asyncpg.InvalidSchemaNameError)) and "onceward" in str(error)


def is_lost_session(error: BaseException) -> bool:
    """Return whether the session ended during the command."""
    import asyncpg

    from onceward.db import lost_connection

    if isinstance(error, asyncpg.InterfaceError):
        return "closed" in str(error)  # others are mistakes in our own calls
    ended = (asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, ConnectionError)
    return isinstance(error, ended) or lost_connection(error)


def explain(error: BaseException) -> str:
    """Return the line that the command prints about an expected failure."""
    if lacks_schema(error):
        return f"the schema in the database is missing or older than this version: run `onceward migrate` ({error})"
    if is_lost_session(error):
        return (
            f"the connection to the database was lost: {str(error) or type(error).__name__}. What was not committed is "
            "rolled back: run the command again"
        )
    return str(error)


def code_for(error: BaseException, features: Features) -> Exit | None:
    """Return the exit code of an expected failure, or None for a bug, which shows its traceback."""
    from onceward.settings import SettingsError

    match error:
        case CommandFailed():
            return error.code
        case SettingsError() | ExtraMissing():
            return Exit.SETTINGS
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            from onceward.db import DatabaseError, MigrationError

            if isinstance(error, MigrationError) or lacks_schema(error):
                return Exit.MIGRATION
            if isinstance(error, DatabaseError) or is_lost_session(error):
                return Exit.DATABASE
            return Exit.FAILED if isinstance(error, tuple(features.load("errors"))) else None
