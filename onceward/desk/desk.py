"""A desk: the place where the people of one app work. It is declared once, and becomes pages of the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from onceward.desk.actions import Act, DeskAction, Load, Nothing, On, Run
from onceward.desk.charts import Chart
from onceward.desk.detail import Detail
from onceward.desk.errors import WrongDesk
from onceward.desk.listing import Listing
from onceward.web.dashboard.contribution import Pages
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
    """One number on the home page of a desk."""

    title: str
    sql: str
    listing: str = ""
    query: str = ""
    """The filters of the listing that the number leads to."""
    kind: Literal["number", "money"] = "number"
    currency: str = ""
    warn_above: int | None = None


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
        app: Onceward,
        *,
        table: str,
        roles: tuple[Role, ...] = (),
        order: int = 100,
        key: str = "",
    ) -> None:
        if not name.isidentifier() or name.lower() != name:
            raise WrongDesk(f"the name of a desk must be an identifier in small letters, not {name!r}")
        self.name = name
        self.title = title
        self.table = table
        self.order = order
        self.key = key
        self.roles = tuple(roles)
        self.listings: dict[str, Listing] = {}
        self.details: dict[str, Detail] = {}
        self.actions: dict[tuple[str, str], DeskAction] = {}
        self.charts: list[Chart] = []
        self.figures: list[DeskFigure] = []
        DESKS[name] = self
        from onceward.desk.bulk import register

        self.run_job = register(self, app)

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
        roles: tuple[str, ...] = (),
        causes: tuple[Effect, ...] = (),
    ) -> Callable[[RunT], RunT]:
        """Add an action. The function runs in one transaction and returns what people read afterwards."""

        def add(run: RunT) -> RunT:
            self._check_roles(roles)
            name = run.__name__
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

    def role_names(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """Return the full names of roles: `library.librarian`."""
        return tuple(f"{self.name}.{role}" for role in roles)

    def _check_roles(self, roles: tuple[str, ...]) -> None:
        known = {role.name for role in self.roles}
        if unknown := set(roles) - known:
            raise WrongDesk(f"desk {self.name} has no role {sorted(unknown)}; it has {sorted(known)}")

    @cached_property
    def pages(self) -> Pages:
        """The pages of the dashboard: `Feature(pages=...)` names it."""
        from onceward.desk.site import desk_pages

        return desk_pages(self)


__all__ = ["Act", "Desk", "DeskFigure", "Role"]
