"""The dashboard of one process: its templates, its static files, the existing tables, and the rendering of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from jinja2 import Environment, FileSystemLoader

from onceward.context import Context
from onceward.look.colours import STATIC as LOOK
from onceward.look.languages import Languages
from onceward.trust.identity import Identity
from onceward.trust.settings import TrustSettings
from onceward.web.dashboard import formats
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import navigation
from onceward.web.dashboard.page import Page, PageReader, View

HERE = Path(__file__).parent
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

TABLES = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
"""


class Params(dict[str, str]):
    """The parameters of a URL. A missing parameter is an empty text."""

    def __missing__(self, _name: str) -> str:
        return ""


class Site:
    """The dashboard. `start` reads once which tables exist, so that the menu shows only installed features."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.app = context.app
        self.database = context.database
        self.engine = context.engine
        self.settings = context.settings
        self.traced = context.features.traced
        self.contributed = sum(context.features.load("pages"), Pages(templates=(HERE / "templates",)))
        self.languages = Languages(self.contributed.languages)
        self.start_page = "/login"
        """Where `/` sends a visitor who is not logged in. The demo has a page that explains it."""
        self.tables: frozenset[str] = frozenset()
        self.pages: dict[str, Page] = {}
        folders = (LOOK, HERE / "static")
        self.files = {path.name: path.read_bytes() for each in folders for path in sorted(each.iterdir())}
        self.files["style.css"] = self.files["look.css"] + self.files["style.css"]
        self.version = hashlib.sha256(b"".join(self.files.values())).hexdigest()[:12]
        self._templates = Environment(
            loader=FileSystemLoader(self.contributed.templates),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters = cast(dict[str, Any], self._templates.filters)  # pyright: ignore[reportUnknownMemberType]
        filters.update(formats.FILTERS)
        shared = cast(dict[str, Any], self._templates.globals)  # pyright: ignore[reportUnknownMemberType]
        shared.update(static=f"/dashboard/static/{self.version}", url=url, between=formats.between)

    async def start(self) -> None:
        self.tables = frozenset(row[0] for row in await self.database.fetch(TABLES))

    async def stop(self) -> None:
        """Do nothing: the dashboard has no background task."""

    def path_of(self, kind: str, id: int | UUID) -> str:
        """Return the path of the object's own page, or else of its consequences."""
        path = self.contributed.paths.get(kind)
        return f"/dashboard/consequences/{id}" if path is None else f"{path}/{id}"

    def view(
        self, conn: PageReader, organization: UUID | None, params: Mapping[str, str], *, variant: str = ""
    ) -> View:
        return View(self, conn, organization, Params(params), variant)

    def render(self, template: str, **context: Any) -> str:
        return self._templates.get_template(template).render(**context)

    async def part(self, page: Page, view: View) -> str:
        """Render the part of a page that changes. The text is the same for all viewers who see the same rows."""
        return self.render(
            f"parts/{page.part or page.name}.html", page=page, params=view.params, **await page.load(view)
        )

    def whole(self, page: Page | None, identity: Identity, frame: Mapping[str, Any], **context: Any) -> str:
        """Render a whole page for one viewer, from the frame and the values that the page's loader returned."""
        section = "" if page is None else page.section
        return self.render(
            context.pop("template", None) or (page.template if page is not None else "page.html"),
            page=page,
            identity=identity,
            section=section,
            variant="" if page is None else page.variant(identity),
            navigation=navigation(self.contributed.sections, self.tables, identity),
            may_act=identity.may("operator"),
            csrf=identity.csrf or "",
            needs_confirmation=identity.session is not None
            and identity.session.confirmed_s_ago > self.settings.of(TrustSettings).reauthentication_minutes * 60,
            **frame,
            **context,
        )


def url(path: str, *given: Mapping[str, Any], **changed: Any) -> str:
    """Return a URL with these parameters. Later ones win, and empty ones are left out."""
    params: dict[str, Any] = {}
    for each in (*given, changed):
        params.update(each)
    kept = {name: value for name, value in params.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path
