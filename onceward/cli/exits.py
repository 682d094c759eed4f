"""What a command's exit code means, and which failure leads to which. docs/cli.md has the same table."""

from __future__ import annotations

from enum import IntEnum

from onceward.feature import Features


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    SETTINGS = 3
    DATABASE = 4
    MIGRATION = 5
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "done",
    Exit.FAILED: "ran, and the answer is no: a check failed, a run broke, an address is taken",
    Exit.USAGE: "the command line is wrong: unknown command or option, no such app",
    Exit.SETTINGS: "a setting is wrong",
    Exit.DATABASE: "the database cannot be reached or refuses",
    Exit.MIGRATION: "the schema cannot be brought, or trusted, to where this version needs it",
    Exit.INTERRUPTED: "ended by Ctrl-C before it was done",
}


class CommandFailed(Exception):
    """A command that ends with a message for the user and a code for scripts."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: BaseException, features: Features) -> Exit | None:
    """The exit code for a failure that has a name; None for a bug, which shows its traceback."""
    from onceward.settings import SettingsError
    from onceward.telemetry.tracing import TracingUnavailable

    match error:
        case CommandFailed():
            return error.code
        case SettingsError() | TracingUnavailable():
            return Exit.SETTINGS
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            from onceward.db import DatabaseError, MigrationError

            if isinstance(error, MigrationError):
                return Exit.MIGRATION
            if isinstance(error, DatabaseError):
                return Exit.DATABASE
            return Exit.FAILED if isinstance(error, tuple(features.load("errors"))) else None
