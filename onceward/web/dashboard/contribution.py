"""What a feature adds to the dashboard: pages, actions, menu entries, search, and its lines on the overview."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    """Something that a search found: its kind in the tree of consequences, and its id."""

    kind: str
    id: int


Finder = Callable[[View, str], Awaitable[list[Hit]]]
"""Find what has this name, by index."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the overview says that something needs attention, and where to look."""

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
    """How a feature is doing: numbers for the overview, and reasons to look closer."""

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
    """Everything that one feature adds. Two of them are added together with `+`."""

    pages: tuple[Page, ...] = ()
    actions: tuple[Action, ...] = ()
    sections: tuple[Section, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where things of a kind have pages of their own: kind in the tree of consequences -> path before the id."""
    finders: tuple[Finder, ...] = ()
    status: tuple[StatusLoader, ...] = ()
    arrivals: tuple[str, ...] = ()
    """Statements that count what arrived per second (`at`, `arrived`) between $1 and $2, above the id $3."""
    extras: tuple[Extra, ...] = ()
    templates: tuple[Path, ...] = ()
    """Folders with the templates of the pages."""

    def __add__(self, other: Pages) -> Pages:
        joined: dict[str, Any] = {}
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            joined[each.name] = {**mine, **theirs} if each.name == "paths" else mine + theirs
        return Pages(**joined)
