"""A desk: the place where the people of one app work. It is declared once, and becomes pages of the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from onceward.desk.actions import Act, DeskAction, Load, Nothing, On, Run
from onceward.desk.charts import Chart
from onceward.desk.detail import Detail
from onceward.desk.errors import WrongDesk
from onceward.desk.list_request import Parent
from onceward.desk.listing import Listing
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Group
from onceward.web.dashboard.page import Loader
from onceward.web.exposure import Effect

if TYPE_CHECKING:
    from onceward.app import Onceward

DESKS: dict[str, Desk] = {}
"""All desks by name. A later one with the same name replaces the earlier one, as in tests."""

RunT = TypeVar("RunT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Role:
    """What a member of an organization can be in one desk: `Role("librarian", "Librarian", "Lends books")`."""

    name: str
    title: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskFigure:
    """One number on the home page of a desk.

    `$1` in `sql` is the organization, null for the whole instance. Row-level security alone hides rows of others but
    uses no index: name the organization where a table grows.
    """

    title: str
    sql: str
    listing: str = ""
    query: str = ""
    """The filters of the listing that the number leads to."""
    kind: Literal["number", "money"] = "number"
    currency: str = ""
    warn_above: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The first rows of a list, on the home page of a desk."""

    listing: Listing
    title: str
    query: str
    rows: int


class Desk:
    """The desk of one app.

    ```python
    desk = Desk("library", "Library", app, table="library.books", roles=[Role("librarian", "Librarian")])
    BOOKS = desk.listing(Listing(...), detail=Detail(title="r.title"))

    @desk.action(BOOKS, "Lend", model=Loan)
    async def lend(tx: Tx, act: Act[Loan]) -> str: ...

    PAGES = desk.pages
    ```
    """

    def __init__(
        self,
        name: str,
        title: str,
        app: Onceward | None,
        *,
        table: str,
        roles: tuple[Role, ...] = (),
        order: int = 100,
        key: str = "",
        group: Group = "Apps",
        home: tuple[Loader, str] | None = None,
        zone: str = "",
        languages: Path | None = None,
    ) -> None:
        if not name.isidentifier() or name.lower() != name:
            raise WrongDesk(f"the name of a desk must be an identifier in small letters, not {name!r}")
        self.name = name
        self.title = title
        self.table = table
        self.order = order
        self.key = key
        self.group: Group = group
        self.roles = tuple(roles)
        self.home = home
        """A loader and the name of its part, for an app with a home page of its own."""
        self.zone = zone
        """SQL for the time zone of the organization, in which days are meant if the address names none."""
        self.languages = languages
        """The folder with files of translations: `pt.toml` (`onceward.look.languages`)."""
        self.listings: dict[str, Listing] = {}
        self.details: dict[str, Detail] = {}
        self.actions: dict[tuple[str, str], DeskAction] = {}
        self.charts: list[Chart] = []
        self.figures: list[DeskFigure] = []
        self.shortlists: list[Shortlist] = []
        DESKS[name] = self
        from onceward.desk.bulk import register

        # A desk of the engine itself has no app, and so no actions on several rows.
        self.run_job: Any = None if app is None else register(self, app)

    @property
    def start(self) -> str:
        """Return the path at which people start: the home page, or the only list of a desk that has nothing else."""
        only = list(self.listings) if not (self.home or self.figures or self.charts or self.shortlists) else []
        return f"{self.path}/{only[0]}" if len(only) == 1 else self.path

    @property
    def path(self) -> str:
        return f"/dashboard/{self.name}"

    def listing(self, listing: Listing, *, detail: Detail | None = None) -> Listing:
        """Add a list, and the page of each of its rows."""
        if listing.name in self.listings:
            raise WrongDesk(f"desk {self.name} has two listings {listing.name}")
        self._check_roles(listing.roles)
        self.listings[listing.name] = listing
        if detail is not None:
            self.details[listing.name] = detail
        return listing

    def action(
        self,
        listing: Listing,
        title: str,
        *,
        on: On = "row",
        model: type[BaseModel] = Nothing,
        load: Load | None = None,
        when: str = "true",
        reason: bool = False,
        danger: bool = False,
        undo: str = "",
        in_list: bool = False,
        roles: tuple[str, ...] = (),
        causes: tuple[Effect, ...] = (),
    ) -> Callable[[RunT], RunT]:
        """Add an action. The function runs in one transaction and returns what people read afterwards."""

        def add(run: RunT) -> RunT:
            self._check_roles(roles)
            name = run.__name__
            if on == "rows" and self.run_job is None:
                raise WrongDesk(f"action {name}: a desk without an app has no job for actions on several rows")
            if (listing.name, name) in self.actions:
                raise WrongDesk(f"listing {listing.name} has two actions {name}")
            function: Run = run
            self.actions[listing.name, name] = DeskAction(
                name=name,
                title=title,
                listing=listing,
                run=function,
                on=on,
                model=model,
                load=load,
                when=when,
                reason=reason,
                danger=danger,
                undo=undo,
                in_list=in_list,
                roles=roles,
                causes=causes,
            )
            return run

        return add

    def chart(self, chart: Chart) -> Chart:
        """Add a chart to the home page of the desk."""
        self.charts.append(chart)
        return chart

    def figure(self, figure: DeskFigure) -> DeskFigure:
        """Add a number to the home page of the desk."""
        if figure.listing and figure.listing not in self.listings:
            raise WrongDesk(f"figure {figure.title!r} leads to the listing {figure.listing}, which the desk has not")
        self.figures.append(figure)
        return figure

    def actions_of(self, listing: Listing, *on: On) -> list[DeskAction]:
        return [each for each in self.actions.values() if each.listing is listing and each.on in on]

    def shortlist(self, listing: Listing, title: str, query: str = "", *, rows: int = 8) -> None:
        """Show the first rows of a list on the home page: `desk.shortlist(VISITS, "Today", "starts_at=today")`."""
        self.shortlists.append(Shortlist(listing, title, query, rows))

    def action_named(self, recorded: str) -> DeskAction | None:
        """Return the action that the audit log calls by this name."""
        return next((each for each in self.actions.values() if each.recorded_as(self.name) == recorded), None)

    def parents_of(self, listing: Listing) -> dict[str, Parent]:
        """Return the objects by which a list can be limited: those whose page shows it as a tab."""
        return {
            name: Parent(related.by, related.type or self.listings[name].id_type)
            for name, detail in self.details.items()
            for related in detail.related
            if related.listing is listing
        }

    def role_names(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full names of roles: `library.librarian`."""
        return tuple(f"{self.name}.{role}" for role in roles)

    def _check_roles(self, roles: tuple[str, ...]) -> None:
        known = {role.name for role in self.roles}
        if unknown := set(roles) - known:
            raise WrongDesk(f"desk {self.name} has no role {sorted(unknown)}; it has {sorted(known)}")

    def _check_undo(self) -> None:
        for listing, action in ((name, each) for (name, _), each in self.actions.items()):
            if action.undo and (listing, action.undo) not in self.actions:
                raise WrongDesk(f"action {action.name} is undone by {action.undo}, which listing {listing} has not")

    @cached_property
    def pages(self) -> Pages:
        """The pages of the dashboard: `Feature(pages=...)` names it."""
        from onceward.desk.site import desk_pages

        self._check_undo()
        return desk_pages(self)


__all__ = ["Act", "Desk", "DeskFigure", "Role"]
