"""What a command's exit code means, and which failure leads to which. docs/cli.md has the same table."""

from __future__ import annotations

from enum import IntEnum


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


def code_for(error: BaseException) -> Exit | None:
    """The code for a failure that we can name; None for a bug, which shows its traceback."""
    from onceward.db import DatabaseError, MigrationError
    from onceward.outbox.errors import OutboxError
    from onceward.settings import SettingsError
    from onceward.telemetry.tracing import TracingUnavailable
    from onceward.trust.errors import TrustError
    from onceward.web.server import CannotListen

    match error:
        case CommandFailed():
            return error.code
        case SettingsError() | TracingUnavailable():
            return Exit.SETTINGS
        case MigrationError():
            return Exit.MIGRATION
        case DatabaseError():
            return Exit.DATABASE
        case CannotListen() | TrustError() | OutboxError():
            return Exit.FAILED
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            return None
