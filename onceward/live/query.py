"""A live query: a function that returns a result and declares which changes affect that result.

@app.query
async def occupancy(q: Query, *, event_id: UUID):
    q.watch("ticketing.seats", event_id=event_id)
    return await q.fetchrow("select count(*) as sold from ticketing.seats where event_id = $1", event_id)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_type_hints
from uuid import UUID

import asyncpg
import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from onceward.db import Connection
from onceward.durations import Duration, in_seconds
from onceward.live.access import Rule, Viewer
from onceward.live.errors import BadArguments, NotVisible, QueryFault
from onceward.live.watched import Tables
from onceward.trust import Principal

Per = Literal["organization", "user"]

P = ParamSpec("P")
R = TypeVar("R")

Condition = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency on a table, or only on its rows that satisfy all conditions."""

    relation: int
    conditions: tuple[Condition, ...] = ()


class Query:
    """The argument of a query function: it reads the database as the viewer sees it, and declares dependencies."""

    __slots__ = (
        "_conn",
        "_definition",
        "_tables",
        "_viewer",
        "dependencies",
        "named",
        "soonest",
        "statements",
        "until",
    )

    def __init__(self, conn: Connection, definition: QueryDefinition[..., Any], viewer: Viewer, tables: Tables) -> None:
        self._conn = conn
        self._definition = definition
        self._viewer = viewer
        self._tables = tables
        self.dependencies: set[Dependency] = set()
        self.named: set[str] = set()
        self.statements: dict[str, int] = {}
        self.soonest: float | None = None
        self.until: datetime | None = None

    # -- the viewer ------------------------------------------------------------------------------------------

    @property
    def organization(self) -> UUID | None:
        return self._viewer.organization

    @property
    def user_id(self) -> str:
        """The user for whom the query runs.

        Only for queries declared with `per="user"`; other results are shared by users.
        """
        if self._definition.per != "user":
            raise NotVisible(
                f"query {self._definition.name} uses user_id, but all users of the organization share its result; "
                'declare it with @app.query(per="user")'
            )
        principal = self._viewer.principal
        user = None if principal is None else principal.user_in(self.organization)
        if user is None:
            raise NotVisible(
                f"query {self._definition.name} uses user_id, but the caller is not an end user of its organization"
            )
        return user

    @property
    def principal(self) -> Principal | None:
        """The caller for whom the query runs: set only for queries declared with `per="user"`, and None without
        credentials."""
        return self._viewer.principal

    # -- what the result depends on --------------------------------------------------------------------------------

    def watch(self, table: str, /, **keys: Any) -> None:
        """Run the query again when rows of `table` change. With keys, only rows that match all of them count."""
        watched = self._tables.get(table)
        conditions = tuple(watched.condition(key, value) for key, value in keys.items())
        self.dependencies.add(Dependency(watched.oid, conditions))
        self.named.add(watched.name)

    def ignore(self, *tables: str) -> None:
        """Declare that the query reads these tables but does not depend on their changes."""
        self.named.update(name if "." in name else f"public.{name}" for name in tables)

    def stale_after(self, duration: Duration) -> None:
        """Run the query again after this time even if nothing changes.

        If called several times, the shortest time counts.
        """
        seconds = in_seconds(duration)
        if seconds <= 0:
            raise QueryFault(f"query {self._definition.name}: stale_after must be more than 0 seconds, not {seconds}")
        self.soonest = seconds if self.soonest is None else min(self.soonest, seconds)

    def stale_at(self, moment: datetime | None) -> None:
        """Run the query again at this business time, for example when a hold expires. None has no effect."""
        if moment is None:
            return
        if moment.tzinfo is None:
            raise QueryFault(
                f"query {self._definition.name}: stale_at {moment} has no time zone; pass an aware datetime"
            )
        self.until = moment if self.until is None else min(self.until, moment)

    # -- statements --------------------------------------------------------------------------------------------------

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """Return all rows of a statement."""
        self.statements[query] = len(args)
        return await self._conn.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> asyncpg.Record | None:
        """Return the first row of a statement, or None."""
        self.statements[query] = len(args)
        return await self._conn.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Return the first column of the first row, or None."""
        self.statements[query] = len(args)
        return await self._conn.fetchval(query, *args)


class QueryDefinition(Generic[P, R]):
    """A function registered as a live query. A call runs the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        parameter: str,
        allow: Rule = "viewer",
        per: Per = "organization",
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"query {name} must be `async def`")
        self.function = function
        self.name = name
        self.parameter = parameter
        self.allow: Rule = allow
        self.per: Per = per
        self.model = _arguments_model(function, name, parameter)
        self.relations: dict[str, frozenset[str]] = {}
        """The tables that each statement reads, by the text of the statement. Filled at the first run."""
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<query {self.name}>"

    async def __call__(self, q: Query, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.function(q, *args, **kwargs)

    def load(self, arguments: Any) -> tuple[dict[str, Any], str]:
        """Return the arguments converted to the types of the signature, and a canonical text for comparison."""
        try:
            model = self.model.model_validate({} if arguments is None else arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "arguments"
            raise BadArguments(f"query {self.name}, argument {where}: {first['msg']}") from None
        text = orjson.dumps(model.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS).decode()
        return {name: getattr(model, name) for name in self.model.model_fields}, text

    async def call(self, q: Query, arguments: dict[str, Any]) -> Any:
        return await self.function(**{self.parameter: q}, **arguments)


def _arguments_model(function: Callable[..., Any], name: str, parameter: str) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        if each.name == parameter:
            continue
        if each.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"query {name}: parameter {each.name!r} must be keyword-only (put it after `*`)")
        default = ... if each.default is inspect.Parameter.empty else each.default
        fields[each.name] = (hints.get(each.name, Any), default)
    return create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
