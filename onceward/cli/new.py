"""`new`: create a small project that runs with `onceward dev` and passes its own tests."""

from __future__ import annotations

import keyword
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import say
from onceward.cli.session import FEATURES_HERE
from onceward.feature import Features
from onceward.private_files import write_private

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
LONGEST_NAME = 40
RESERVED = frozenset({"app", "deploy", "migrations", "test", "tests", "wheels"})
"""Names of folders of the project, or names that tools treat specially."""
PRIVATE = frozenset({".env"})
SKIPPED = frozenset({"__pycache__"})


class Template(StrEnum):
    """What a new project begins with."""

    WEBHOOK = "webhook"
    SHOP = "shop"


def register(cli: typer.Typer) -> None:
    cli.command("new")(new)


def new(
    name: Annotated[str, typer.Argument(help="Name of the project and of its folder, for example `shop`.")],
    template: Annotated[
        Template,
        typer.Option("--template", help="`webhook`: a webhook, a job and a schedule. `shop`: orders that are paid."),
    ] = Template.WEBHOOK,
) -> None:
    """Create a project with an app, a migration, tests and files for deployment."""
    package = package_of(name, FEATURES_HERE.get().engine)
    target = Path.cwd() / name
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandFailed(f"{target} exists and is not an empty folder: choose another name or remove it", Exit.USAGE)
    create_project(target, name=name, package=package, template=template)
    say(f"created {name}. Next: `cd {name}`, then `onceward dev`; the tests run with `pytest`")


def package_of(name: str, engine: Features) -> str:
    """Return the name of the project's Python package. Raise if the name cannot be used beside these features."""
    package = name.replace("-", "_")
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        reason = f"use at most {LONGEST_NAME} of a-z, 0-9, - and _, beginning with a letter, as in `my-shop`"
    elif keyword.iskeyword(package) or keyword.issoftkeyword(package):
        reason = "it is a word of the Python language; choose another name"
    elif package in RESERVED:
        reason = "a file or folder of the project has this name; choose another name"
    elif package in sys.stdlib_module_names or _is_installed(package):
        reason = f"a Python module {package!r} is already installed, which the project would hide; choose another name"
    elif setting := _setting_that_begins_with(package, engine):
        reason = f"settings of the project would begin like {setting}, a setting of the engine; choose another name"
    else:
        return package
    raise CommandFailed(f"{name!r} cannot be the name of a project: {reason}", Exit.USAGE)


def create_project(target: Path, *, name: str, package: str, template: Template = Template.WEBHOOK) -> None:
    """Write the files of a new project. The folder is missing or empty."""
    import secrets
    from base64 import b64encode
    from importlib.resources import files

    replacements = {
        "project_name": package,
        "project-name": name,
        "generated_webhook_secret": b64encode(secrets.token_bytes(24)).decode(),
        "generated_password": secrets.token_urlsafe(24),
        "generated_runtime_password": secrets.token_urlsafe(24),
        "generated_secret_key": secrets.token_urlsafe(32),
    }
    _copy(files("onceward.cli").joinpath("project_template"), target, replacements)
    if template is Template.SHOP:  # its files replace those of the same name
        _copy(files("onceward.cli").joinpath("shop_template"), target, replacements)


def _copy(source: Traversable, target: Path, replacements: dict[str, str]) -> None:
    if source.is_file():
        text = _replaced(source.read_text(encoding="utf-8"), replacements).encode()
        if target.name in PRIVATE:
            write_private(target, text)
        else:
            target.write_bytes(text)
        return
    target.mkdir(exist_ok=True)
    for child in source.iterdir():
        if child.name not in SKIPPED:
            # Stored without the leading dot, because tools that build packages treat such files specially.
            name = re.sub(r"^dot_", ".", _replaced(child.name, replacements))
            _copy(child, target / name, replacements)


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for token, value in replacements.items():
        text = text.replace(token, value)
    return text


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec

    spec = find_spec(package)
    return spec is not None and spec.origin is not None  # an empty folder has no origin


def _setting_that_begins_with(package: str, engine: Features) -> str | None:
    from onceward.settings import prefix_of, variables

    taken = (*variables(engine.settings), prefix_of("source") + "NAME")
    return next((name for name in taken if name.startswith(prefix_of(package))), None)
