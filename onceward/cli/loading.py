"""Find the app that a command shall run: `pkg.module:app`, or the bundled ones."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from onceward.app import Onceward

BUNDLED = "onceward_apps.all:app"

AppArgument = Annotated[
    str, typer.Argument(metavar="[PKG.MODULE:APP]", help="The app to run; the bundled ones if not given.")
]


class NoSuchApp(CommandFailed):
    """The path leads to no app; the message says how to write one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


def load_app(path: str) -> Onceward:
    """Import an app the way a user wrote it. The current directory counts, as for `python -m`."""
    from onceward.app import Onceward

    module_name, colon, attribute = path.partition(":")
    if not module_name or not colon or not attribute:
        raise NoSuchApp(f"{path!r} is not of the form pkg.module:app, for example `myshop.main:app`")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not _exists(module_name):
        raise NoSuchApp(
            f"there is no module {module_name!r} to be found from {Path.cwd()}: "
            "run the command in the project's directory, or install the project"
        )
    module = import_module(module_name)
    apps = [name for name, value in vars(module).items() if isinstance(value, Onceward)]
    found = getattr(module, attribute, None)
    if isinstance(found, Onceward):
        return found
    hint = f"it has {', '.join(f'{module_name}:{name}' for name in apps)}" if apps else "it holds no Onceward app"
    what = "has no attribute" if found is None else f"holds a {type(found).__name__}, not an Onceward app, as"
    raise NoSuchApp(f"module {module_name!r} {what} {attribute!r}; {hint}")


def _exists(module_name: str) -> bool:
    """Whether the module can be found, apart from what happens when it is imported."""
    try:
        return find_spec(module_name) is not None
    except (ModuleNotFoundError, ValueError):
        return False
