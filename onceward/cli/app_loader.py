"""Find the app that a command runs: `pkg.module:app`, from the command line or ONCEWARD_APP."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.extras import ExtraMissing, find_library

if TYPE_CHECKING:
    from onceward.app import Onceward

APP_VARIABLE = "ONCEWARD_APP"
PACKAGE = Path(__file__).parent.parent
APP_ENTRY_POINTS = "onceward.apps"
"""The group of entry points in which a package names its apps, for the message of a command that was given none."""

AppArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PKG.MODULE:APP]",
        help=f"The app, for example `shop.main:app`. Default: the value of {APP_VARIABLE}.",
        envvar=APP_VARIABLE,
        show_envvar=False,
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        help=f"The app, for example `shop.main:app`. Default: the value of {APP_VARIABLE}.",
        envvar=APP_VARIABLE,
        show_envvar=False,
    ),
]


class AppFailed(CommandFailed):
    """The module of the app raised an error. The message names the line of the user's own file that caused it."""

    def __init__(self, module: str, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}"
        super().__init__(
            f"{_own_line(error) or f'module {module!r}'}: {what} (--traceback shows the calls)", Exit.USAGE
        )


def _own_line(error: Exception) -> str | None:
    """Return the file and line of the innermost call, or of the syntax error, that is not in a library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}"
    own: str | None = None
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    for frame in traceback.extract_tb(error.__traceback__):
        is_library = frame.filename.startswith((*libraries, str(PACKAGE), "<frozen "))
        if not is_library:
            own = f"{_shown(frame.filename)}:{frame.lineno}"
    return own


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


class NoSuchApp(CommandFailed):
    """The path does not name an app. The message says how to write the path."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


def load_app(path: str | None) -> Onceward:
    """Import an app. The current directory is on the import path, as for `python -m`."""
    from onceward.app import Onceward

    if path is None:
        raise NoSuchApp(
            f"no app is given: write `onceward COMMAND shop.main:app`, or set {APP_VARIABLE}=shop.main:app"
            f"{_installed_apps()}"
        )
    module_name, colon, attribute = path.partition(":")
    if not module_name or not colon or not attribute:
        raise NoSuchApp(f"{path!r} is not of the form pkg.module:app, for example `myshop.main:app`")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if find_library(module_name) is None:
        raise NoSuchApp(
            f"module {module_name!r} cannot be found from {Path.cwd()}: "
            "run the command in the project's directory, or install the project"
        )
    try:
        module = import_module(module_name)
    except (CommandFailed, ExtraMissing):
        raise
    except Exception as error:
        raise AppFailed(module_name, error) from error
    apps = [name for name, value in vars(module).items() if isinstance(value, Onceward)]
    value = getattr(module, attribute, None)
    if isinstance(value, Onceward):
        return value
    hint = f"it has {', '.join(f'{module_name}:{name}' for name in apps)}" if apps else "it has no Onceward app"
    what = "has no attribute" if value is None else f"has a {type(value).__name__}, not an Onceward app, as"
    raise NoSuchApp(f"module {module_name!r} {what} {attribute!r}; {hint}")


def app_paths() -> dict[str, str]:
    """Return the paths of the apps that installed packages name, by their names."""
    from importlib.metadata import entry_points

    return {each.name: each.value for each in entry_points(group=APP_ENTRY_POINTS)}


def _installed_apps() -> str:
    apps = sorted(app_paths().values())
    return f". Installed: {', '.join(apps)}" if apps else ""
