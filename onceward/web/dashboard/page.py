"""A page of the dashboard: a path, a loader, and a part that is rendered again while somebody watches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import asyncpg

from onceward.errors import OncewardError
from onceward.trust.identity import RANK, Identity, Scope

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
    variant: str = ""
    """For a page that differs by role: the scope and the roles of the viewer."""

    @property
    def everything(self) -> bool:
        return self.organization is None

    def may(self, scope: Scope, *roles: str) -> bool:
        """Return whether viewers of this variant have this scope or one of these roles. Only pages with `by_role`
        ask."""
        own, *desk_roles = self.variant.split() or ["user"]
        return RANK[own] >= RANK[scope] or not set(desk_roles).isdisjoint(roles)

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
    by_role: bool = False
    """Whether what it shows depends on the roles of the viewer, which `View.may` then knows."""
    every_s: float | None = 1.0
    """Seconds between two renderings of a watched part; None means that it is not updated."""

    def variant(self, identity: Identity) -> str:
        """Return what distinguishes viewers of this page: nothing, or their scope and the roles they have."""
        if not self.by_role:
            return ""
        return " ".join((max(identity.scopes, key=RANK.__getitem__), *sorted(identity.roles)))


class Missing(OncewardError, LookupError):
    """The object does not exist or belongs to another organization. The message names it."""
