"""Who looks at a page, and what a page is: a path, a loader, and a part that can be rendered anew while it is watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import asyncpg

from onceward.trust.identity import Scope

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site


class Reader(Protocol):
    """What a loader reads with: a transaction of a request, or a live query. Both see what the viewer may see."""

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]: ...

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class View:
    """One look at a page. `organization` None is the whole instance: only its administrators look so."""

    site: Site
    conn: Reader
    organization: UUID | None
    params: Mapping[str, str]
    """Of the path and of the query string: filters live in the address, so that a link shows what its sender saw."""

    @property
    def everything(self) -> bool:
        return self.organization is None

    def has(self, table: str) -> bool:
        return table in self.site.tables

    def text(self, name: str, most: int = 200) -> str:
        return self.params.get(name, "").strip().replace("\x00", "")[:most]

    def number(self, name: str) -> int | None:
        value = self.params.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


Loader = Callable[[View], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page. Its part, `templates/parts/<name>.html`, is what a live query renders again while somebody watches."""

    name: str
    path: str
    title: str
    load: Loader
    section: str = ""
    scope: Scope = "viewer"
    instance: bool = False
    """Shows what no organization owns; only for administrators who look at the whole instance."""
    part: str = ""
    """The template of the part, where it is not named like the page."""
    template: str = "page.html"
    listed_in_search: bool = False
    """The page is a list that a search can be continued in."""
    every_s: float | None = 1.0
    """How often a watched part is looked at again; None: never."""


class Missing(LookupError):
    """Nothing is there, or it belongs to somebody else; the message says what was looked for."""
