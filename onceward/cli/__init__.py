"""The frame of the command line: entry, rendering, exit codes. The commands belong to the features."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.cli.exits import CommandFailed, Exit
    from onceward.cli.rendering import JsonOption, document, listing, say
    from onceward.cli.session import features_here, opened_database, run

__all__ = [
    "CommandFailed",
    "Exit",
    "JsonOption",
    "document",
    "features_here",
    "listing",
    "opened_database",
    "run",
    "say",
]

__getattr__ = lazy(__name__, __file__)
