"""Walk through all pages of the demo as one person: every kind of page once, along the links of the pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urljoin, urlsplit

import aiohttp

from onceward.desk.desk import DESKS
from onceward.process.process import Process
from onceward.trust.organizations import set_member
from onceward.trust.sessions import create_link
from onceward_apps.start_page import PEOPLE

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=/)(\d+|[\w-]{24,}|[A-Z0-9]{2}(-[A-Z0-9]{4}){3,})(?=/|$|\.)")
NAMED = re.compile(r"(?<=/dashboard/)(templates|schedules|ledger/[A-Z]{3})/[^/]+$")
"""Pages of one kind, with a name instead of an id."""
LINK = re.compile(r'<a\b[^>]*?href="([^"#]*)[^"]*"')
AROUND = frozenset({"sort", "after", "zone", "to"})
"""Parameters that do not make another kind of page."""
NO_PAGE = re.compile(r"/static/|/metrics$|/openapi|^/api/|\.(csv|xlsx|pdf|ics|png|jwt|json|svg)$")
MOST = 400


class Walker(NamedTuple):
    """Somebody who walks through the pages, and where they begin."""

    name: str
    email: str = ""
    organization: str = ""
    role: str = "member"
    desk_roles: tuple[str, ...] = ()
    starts: tuple[str, ...] = ("/",)


def walkers() -> list[Walker]:
    """Return a visitor, the administrator, a viewer and an owner, and somebody with each role of each desk."""
    everybody = [
        Walker("visitor", starts=("/start", "/events", "/learn", "/coursegen")),
        Walker("administrator", "admin@localhost", starts=("/", *(f"/dashboard/{name}" for name in PEOPLE))),
        Walker("viewer", "vera@riverside.example", "riverside", "viewer"),
        Walker("owner", "olga@lakeside.example", "lakeside", "owner"),
    ]
    for name, person in PEOPLE.items():
        for role in DESKS[name].roles:
            full = f"{name}.{role.name}"
            everybody.append(
                Walker(
                    full, f"{role.name}@{name}.example", person.organization, "member", (full,), (f"/dashboard/{name}",)
                )
            )
    return everybody


def kind_of(url: str) -> str:
    """Return what the addresses of one kind of page have in common."""
    parts = urlsplit(url)
    if NO_PAGE.search(parts.path):  # a file is the same kind with each filter
        return ID.sub("*", parts.path)
    names = sorted({name for name, _ in parse_qsl(parts.query)} - AROUND)
    return NAMED.sub(r"\1/*", ID.sub("*", parts.path)) + (f"?{'&'.join(names)}" if names else "")


@dataclass
class Walk:
    """The pages that were seen, by kind, and the links that lead nowhere."""

    seen: dict[str, str] = field(default_factory=dict[str, str])
    dead: list[str] = field(default_factory=list[str])


async def token_of(process: Process, walker: Walker) -> str:
    """Give the walker the role, and return a token that logs in."""
    async with process.database.transaction(role="engine") as tx:
        if walker.organization:
            organization = await tx.fetchval(
                "select organization_id from onceward.organizations where slug = $1", walker.organization
            )
            role: Any = walker.role
            await set_member(tx, organization, walker.email, role, desk_roles=walker.desk_roles, actor="test")
        user = await tx.fetchval("select user_id from onceward.users where email = $1", walker.email)
        return await create_link(tx, user, actor="test")


async def walk(process: Process, walker: Walker) -> Walk:
    """Follow every link of every kind of page once, without a browser."""
    walked = Walk()
    async with aiohttp.ClientSession(process.web.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        if walker.email:
            async with http.post("/login", data={"token": await token_of(process, walker)}) as reply:
                assert reply.status == 200, walker
        waiting = [(start, "the start") for start in walker.starts]
        async for path, origin, text in _pages(http, waiting, walked):
            waiting += [(urljoin(path, unescape(link)), path) for link in LINK.findall(text)]
            del origin
    return walked


async def _pages(
    http: aiohttp.ClientSession, waiting: list[tuple[str, str]], walked: Walk
) -> AsyncIterator[tuple[str, str, str]]:
    while waiting:
        if len(walked.seen) == MOST:
            walked.dead.append(f"more than {MOST} kinds of pages: the rest was not visited")
            return
        path, origin = waiting.pop(0)
        if not path.startswith("/") or path.startswith("//"):
            continue
        kind = kind_of(path)
        if kind in walked.seen:
            continue
        walked.seen[kind] = path
        async with http.get(path, headers={"Accept": "text/html"}) as reply:
            text = await reply.text(errors="replace") if not NO_PAGE.search(urlsplit(path).path) else ""
            if reply.status >= 400:
                walked.dead.append(f"{reply.status} {path} from {origin}")
            elif reply.content_type == "text/html":
                yield path, origin, text
