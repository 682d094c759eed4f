"""Read the project in the current directory: the app in `pyproject.toml` and the variables in `.env`.

    [tool.onceward]
    app = "shop.app:app"

Only variables that begin with ONCEWARD_ are read from `.env`, and one that is already set wins.
"""

from __future__ import annotations

import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, cast

from onceward.cli.app_loader import APP_VARIABLE
from onceward.cli.exits import CommandFailed, Exit

PREFIX = "ONCEWARD_"


class ProjectInvalid(CommandFailed):
    """A file of the project cannot be read. The message names the file and the line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.SETTINGS)


def use_project(directory: Path, environ: MutableMapping[str, str]) -> None:
    """Set the environment variables that the project in this directory declares."""
    for name, value in {**_app(directory / "pyproject.toml"), **_variables(directory / ".env")}.items():
        environ.setdefault(name, value)


def _app(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("onceward", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectInvalid(f"{path}: {error}") from None
    if not table:
        return {}
    if not isinstance(table, dict) or not isinstance(app := cast("dict[str, Any]", table).get("app"), str):
        raise ProjectInvalid(f'{path}: [tool.onceward] must have a line like app = "shop.app:app"')
    return {APP_VARIABLE: app}


def _variables(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    variables: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip().removeprefix("export ")
        if not text.startswith(PREFIX):
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise ProjectInvalid(f"{path}, line {number}: {name.strip()} has no value; write NAME=VALUE")
        variables[name.strip()] = _unquoted(value.strip())
    return variables


def _unquoted(value: str) -> str:
    """Return the value without the quotes around it. A value without quotes ends before a comment."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value.split(" #", 1)[0].rstrip()
