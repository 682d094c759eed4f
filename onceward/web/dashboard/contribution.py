"""What a feature adds to the dashboard: pages, actions, menu entries, search, and figures on the overview."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from onceward.web.dashboard.action import Action
from onceward.web.dashboard.navigation import Section
from onceward.web.dashboard.page import Page, View

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site

Level = Literal["healthy", "attention", "trouble"]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: its kind in the tree of consequences, and its id."""

    kind: str
    id: int | UUID


Finder = Callable[[View, str], Awaitable[list[Hit]]]
"""Returns the rows with this name. It must use an index."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why the overview reports attention or trouble, and the page with details."""

    level: Level
    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One number on the overview."""

    title: str
    value: str
    path: str
    note: str = ""
    tone: Literal["", "warn", "bad"] = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a feature: figures for the overview, and reasons for attention or trouble."""

    figures: tuple[Figure, ...] = ()
    reasons: tuple[Reason, ...] = ()


StatusLoader = Callable[[View], Awaitable[Status]]


@dataclass(frozen=True, slots=True)
class Extra:
    """A GET route below the dashboard that is not a page, such as a preview in a frame."""

    path: str
    make: Callable[[Site], Handler]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Everything that one feature adds to the dashboard. `+` joins two of them."""

    pages: tuple[Page, ...] = ()
    actions: tuple[Action, ...] = ()
    sections: tuple[Section, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    """The pages of single objects: kind in the tree of consequences -> path before the id."""
    finders: tuple[Finder, ...] = ()
    status: tuple[StatusLoader, ...] = ()
    arrivals: tuple[str, ...] = ()
    """Statements that count arrivals per second (`at`, `arrived`) between $1 and $2, above the id $3."""
    bars: tuple[str, ...] = ()
    """Names of pages whose parts are shown in the bar at the top of every page."""
    extras: tuple[Extra, ...] = ()
    templates: tuple[Path, ...] = ()
    """Folders with the templates of the pages."""
    languages: tuple[Path, ...] = ()
    """Folders with files of translations, such as `pt.toml` (`onceward.look.languages`)."""

    def __add__(self, other: Pages) -> Pages:
        joined: dict[str, Any] = {}
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            joined[each.name] = {**mine, **theirs} if each.name == "paths" else mine + theirs
        return Pages(**joined)
