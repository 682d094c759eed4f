"""Twin requests: the same request at once, or nearly the same, leaves what one would.

An app's test gives a `Stage` (a running server, and what is counted) and one case for every route that changes something.
What is left is compared by counting: everything for identical requests, and for nearly identical ones what is valid or
payable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import aiohttp

from onceward import Onceward
from onceward.db import Database
from onceward.testing import until
from onceward.trust import Check, verify

TWINS = 5
WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
IDLE = """
select not exists (select from onceward.work where kind = 'job' and dead_reason is null and sort_at <= now())
"""

JOBS = "select count(*) from onceward.jobs where task not like 'cron:%'"
"""Schedules of the app run during the test, whatever a case does."""
NO_NOTICE = "template <> 'admin-notice'"
"""Notices to administrators are gathered for a few seconds, so one of an earlier case may be sent during a later one."""


@dataclass
class Case:
    """One request, and others that differ a little: by what a second click, tab or colleague would change.

    `several` says why two identical requests are two things. They are one with the same Idempotency-Key, unless the route
    needs no login (`keyed` is false).
    """

    path: str
    body: Any = None
    nearly: Sequence[Any] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    _: KW_ONLY
    form: bool = False
    several: str = ""
    keyed: bool = True
    may_fail_with: frozenset[int] = frozenset()
    """Statuses of 500 and above that are allowed: the payment service works on the same page for another twin."""
    uncounted: frozenset[str] = frozenset()
    """Names of counts that other work changes meanwhile."""


class WrongStatus(Exception):
    """No request was accepted, or one failed."""


class Stage:
    """A running app, with what cases begin from."""

    valid: ClassVar[Mapping[str, str]]
    """What nearly identical requests must not leave twice: a name, and the statement that counts it."""
    everything: ClassVar[Mapping[str, str]]
    """What identical requests must not leave twice, besides `valid`."""

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self.db = database
        self.numbers = count(1)

    def outside(self) -> dict[str, int]:
        """Count what is at the simulated services."""
        return {}

    async def is_idle(self) -> bool:
        """Return whether the jobs that requests caused are done: a refund is booked by one."""
        return await self.db.fetchval(IDLE)

    async def send(self, case: Case, body: Any, *, method: str, key: str = "") -> int:
        headers = {**case.headers, **({"idempotency-key": key} if key else {})}
        content: dict[str, Any] = {"data" if case.form else "json": body}
        async with (
            aiohttp.ClientSession(self.url, cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.request(method, case.path, headers=headers, allow_redirects=False, **content) as response,
        ):
            await response.read()
            return response.status

    async def counts(self, queries: Mapping[str, str]) -> dict[str, int]:
        await until(self.is_idle)
        row = await self.db.fetchrow("select " + ", ".join(f"({query})" for query in queries.values()))
        assert row is not None
        return {**dict(zip(queries, row, strict=True)), **self.outside()}

    async def left_by(
        self, method: str, case: Case, bodies: Sequence[Any], queries: Mapping[str, str], *, key: str = ""
    ) -> dict[str, int]:
        """What requests sent at once add to each count; one of them at least is accepted, none fails."""
        await self.db.execute("delete from onceward.rates")  # a limit of requests would hide what twins do
        queries = {name: query for name, query in queries.items() if name not in case.uncounted}
        before = await self.counts(queries)
        statuses = await asyncio.gather(*(self.send(case, body, method=method, key=key) for body in bodies))
        failures = {status for status in statuses if status >= 500} - case.may_fail_with
        if min(statuses) >= 400 or failures or 429 in statuses:
            raise WrongStatus(f"{case.path}: {statuses}")
        after = await self.counts(queries)
        return {name: after[name] - before[name] for name in after if name not in case.uncounted}


S = TypeVar("S", bound=Stage)
Cases = Mapping[str, Callable[[S], Awaitable[Case]]]
"""Cases by method and path of a route, with a variant in brackets if a route has several: `POST /users (with a code)`."""


def written_routes(app: Onceward) -> set[str]:
    """Return the method and path of every route and dashboard form of the app that changes something."""
    routes = {
        f"{method} {route.path}"  # pyright: ignore[reportAttributeAccessIssue]
        for router in app.routers
        for route in router.routes
        for method in WRITING & (getattr(route, "methods", None) or set())
    }
    pages = [resolve_name(feature.pages) for feature in app.features() if feature.pages is not None]
    return routes | {f"POST {action.path}" for each in pages for action in each.actions}


def routes_of(cases: Mapping[str, Any]) -> set[str]:
    return {name.partition(" (")[0] for name in cases}


async def expect_twins_to_leave_one(stage: S, cases: Cases[S], checks: Sequence[Check]) -> None:
    """Expect that identical requests at once, and nearly identical ones, leave what one request would."""
    wrong = {name: await _compare(stage, name, prepare) for name, prepare in cases.items()}
    _expect_nothing({name: what for name, what in wrong.items() if what})
    await expect_sound(stage, checks)


async def _compare(stage: S, name: str, prepare: Callable[[S], Awaitable[Case]]) -> dict[str, Any]:
    """Return what is wrong with a route: what one request leaves and what twins leave, where that differs."""
    method = name.split()[0]
    queries = {**stage.valid, **stage.everything}
    case = await prepare(stage)
    try:
        alone = await stage.left_by(method, case, [case.body], queries)
        if not any(alone.values()):
            return {"alone": "one request leaves nothing that is counted"}
        identical = await _twins(stage, method, await prepare(stage), alone, queries, nearly=False)
        nearly = {}
        if case.nearly:
            nearly = await _twins(stage, method, await prepare(stage), alone, stage.valid, nearly=True)
    except WrongStatus as error:
        return {"status": str(error)}
    return {kind: what for kind, what in (("identical", identical), ("nearly identical", nearly)) if what}


async def _twins(
    stage: Stage, method: str, case: Case, alone: Mapping[str, int], queries: Mapping[str, str], *, nearly: bool
) -> dict[str, Any]:
    """Return where twins leave something else than one request did."""
    newest = await stage.db.fetchval("select coalesce(max(id), 0) from onceward.jobs")
    bodies = [case.body, *case.nearly] * 2 if nearly else [case.body] * TWINS
    key = uuid4().hex if case.several and case.keyed else ""
    together = await stage.left_by(method, case, bodies, queries, key=key)
    if case.several and not case.keyed:
        return {}
    wrong: dict[str, Any] = {
        count: (alone[count], together[count]) for count in together if alone[count] != together[count]
    }
    if "jobs" in wrong:
        wrong["jobs of the twins"] = await stage.db.fetchval(
            "select array_agg(task || ' ' || args) from onceward.jobs where id > $1", newest
        )
    return wrong


async def expect_sound(stage: Stage, checks: Sequence[Check]) -> None:
    _expect_nothing([result for result in await verify(stage.db, checks) if not result.ok])


def _expect_nothing(wrong: Any) -> None:
    assert not wrong, wrong  # pytest shows no values of this module's assertions by itself
