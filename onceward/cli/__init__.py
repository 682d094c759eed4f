"""The frame of the command line: entry, rendering, exit codes. The commands belong to the features."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.cli.app_commands import ACTOR, OrganizationOption, engine_for, transaction_for
    from onceward.cli.exits import CommandFailed, Exit
    from onceward.cli.rendering import JsonOption, document, listing, say
    from onceward.cli.session import features_here, features_with, opened_database, run

__all__ = [
    "ACTOR",
    "CommandFailed",
    "Exit",
    "JsonOption",
    "OrganizationOption",
    "document",
    "engine_for",
    "features_here",
    "features_with",
    "listing",
    "opened_database",
    "run",
    "say",
    "transaction_for",
]

__getattr__ = lazy(__name__, __file__)
