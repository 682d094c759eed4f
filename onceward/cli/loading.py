"""Find the app that a command runs: `pkg.module:app`, from the command line or ONCEWARD_APP."""

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

APP_VARIABLE = "ONCEWARD_APP"

AppArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PKG.MODULE:APP]",
        help=f"The app, for example `shop.main:app`; {APP_VARIABLE} if not given.",
        envvar=APP_VARIABLE,
        show_envvar=False,
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        help=f"The app, for example `shop.main:app`; {APP_VARIABLE} if not given.",
        envvar=APP_VARIABLE,
        show_envvar=False,
    ),
]


class NoSuchApp(CommandFailed):
    """The path leads to no app; the message says how to write one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


def load_app(path: str | None) -> Onceward:
    """Import an app. The current directory is searched too, as for `python -m`."""
    from onceward.app import Onceward

    if path is None:
        raise NoSuchApp(
            f"no app is named: write `onceward COMMAND shop.main:app`, or set {APP_VARIABLE}=shop.main:app. "
            "`onceward_apps.all:app` runs the bundled apps"
        )
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
