"""Optional libraries. An extra of the distribution installs them; where one is missing, the error names the command.

with extra("push", "web push"):
    from pywebpush import WebPusher
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Literal

from onceward.errors import OncewardError

Extra = Literal["desk", "embedded", "files", "mail", "mcp", "otel", "push", "testing"]
"""The extras of the distribution, as pyproject.toml has them."""


class ExtraMissing(OncewardError, ImportError):
    """A library that an extra installs is needed and not installed. The message has the command that installs it."""

    def __init__(self, name: Extra, what: str) -> None:
        super().__init__(f"{what} needs the extra `{name}`, which is not installed: {command(name)}")


def command(name: Extra) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'onceward[{name}]'"


@contextmanager
def extra(name: Extra, what: str) -> Generator[None]:
    """Import libraries of an extra in the block. `what` is the feature or setting that needs them."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "onceward":
            raise
        raise ExtraMissing(name, what) from error


def require(name: Extra, module: str, what: str) -> None:
    """Fail early if the module of an extra cannot be found, without importing it."""
    if find_library(module) is None:
        raise ExtraMissing(name, what)


def find_library(module: str) -> ModuleSpec | None:
    """Return where a module is, or None if it is not installed. The packages above it are imported, the module is
    not."""
    try:
        return find_spec(module)
    except (ModuleNotFoundError, ValueError):  # a package above it is missing, or it has no spec
        return None
