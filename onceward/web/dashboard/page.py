"""A page of the dashboard: a path, a loader, and a part that is rendered again while somebody watches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import asyncpg

from onceward.errors import OncewardError
from onceward.trust.identity import Scope

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site


class PageReader(Protocol):
    """Reads rows for a loader: the transaction of a request, or a live query. It sees what the viewer may see."""

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]: ...

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class View:
    """One rendering of a page. `organization` is None for the whole instance, which only administrators see."""

    site: Site
    conn: PageReader
    organization: UUID | None
    params: Mapping[str, str]
    """The parameters of the path and the query string. Filters are in the URL, so that a link shows the same rows."""

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
    """A page. A live query renders its part, `templates/parts/<name>.html`, again while somebody watches the page."""

    name: str
    path: str
    title: str
    load: Loader
    section: str = ""
    scope: Scope = "viewer"
    roles: tuple[str, ...] = ()
    """Roles of a desk that are enough, without the scope: `library.librarian`."""
    instance: bool = False
    """Whether the page shows data of no organization, for administrators of the instance only."""
    part: str = ""
    """The template of the part, if its name differs from the page's."""
    template: str = "page.html"
    listed_in_search: bool = False
    """Whether the search page links to this list."""
    every_s: float | None = 1.0
    """Seconds between two renderings of a watched part; None means that it is not updated."""


class Missing(OncewardError, LookupError):
    """The object does not exist or belongs to another organization. The message names it."""
