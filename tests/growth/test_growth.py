"""What a page costs depends on what it shows, not on what others have stored."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import Database
from onceward.live import LiveNode
from onceward.live.access import Viewer
from onceward.live.query_run import run
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.web.dashboard import pagination
from onceward.web.dashboard.pagination import LONGER
from onceward.web.parts import route_table
from onceward_apps import all as bundled
from tests.growth.asked import ONE, Routes, filters, links, parameters, with_filter
from tests.growth.commands import call, listings
from tests.growth.filled import fill
from tests.growth.measured import Reading, measure, reading

ROWS = int(os.environ.get("ONCEWARD_TEST_GROWTH", "20000"))
NAMES = tuple(
    path.format(name)
    for path in ("/dashboard/search?q={}", "/api/v1/trace/{}")
    for name in ("evt_7", "k7", "person-7@example.org", "+4915112345678", "ticket_code-7", "nothing")
)
"""Questions by a name, which no page links to: the id of an event at its sender, the key of a message, what people
type."""
REPORTS = (".csv", ".xlsx", "/metrics", "{name}")
"""Exports and reports read everything that they show, in parts."""
MADE_UP = ("/invoices/", "/orders/do/take_cash")
"""What fails because the rows of the apps are made up: a document without a number, an order without seats."""
MOST_PAGES = 2_000
"""Of 8 KB, for one request."""
MOST_ROWS = {"small": 1_000, "large": 10_100, "administrator": 10_100}
"""That one request reads and does not show."""

LATELY = "reads the attempts of the last seconds or minutes, of all organizations: not the history"
BACKLOG = "a rehearsal looks at all unfinished work, every few seconds"
COUNTED = "counts exactly up to 10,000 for each queue"
ACTED = "an action on up to 1,000 dead letters, of which the page shows the last errors"
ALL_ORGANIZATIONS = "a list of a desk is in order within an organization; an administrator of all sees all of them"
LINE = "reads the courses that wait: a setting bounds them, and here every sixth of the filled ones waits"
KNOWN: dict[str, str] = {
    "large: -- $1 $2 $3 -- Return the dead letters that a filter selects": ACTED,
    "large: -- Count the messages of a period": "a report of a period",
    "large: -- List the sources of one organization, or of all.": "lists all sources in one answer",
    "large: -- Return the balances of an organization.": "entries after the last checkpoint: none was made here",
    "large: select (r.id)::text as _id, (r.created_at)::text as _sort": "payments filtered by the payer, refunds by state",
    "large: select count(*) from (select 1 from onceward.payment": "the count of the same lists",
    "large: select e.endpoint_id, e.organization_id, e.url": "1,000 in one answer: at this size the planner reads all",
    "large: select user_id, email, name, role": "lists all members in one answer",
    "administrator: -- Return every queue with its numbers": COUNTED,
    "administrator: -- $1 $2 $3 -- Return the dead letters that a filter selects": ACTED,
    "administrator: -- Count the messages of a period": "a report of a period",
    "administrator: -- List the organizations with the number of their members": "lists all organizations on one page",
    "administrator: -- List the sources of one organization, or of all.": "lists all sources in one answer",
    "administrator: select (r.id)::text as _id, (r.created_at)::text as _sort": "payments are in order by organization only",
    "administrator: select count(*) from (select 1 from onceward.payments r": "the count of the same lists",
    "administrator: select distinct r.organization_id as id from onceward.payments r": "an action on rows of several organizations",
}
"""The beginnings of statements that read more today, by viewer, and why. A line may only be removed."""
SOMETIMES: dict[str, str] = {
    "large: -- Count successful and failed attempts per second.": LATELY,
    "large: -- Return how long recent attempts took.": LATELY,
    "large: -- Return the busiest tasks of the last minute.": LATELY,
    "large: select count(*) from onceward.attempts a": LATELY,
    "large: -- Return how many seconds the oldest due work": BACKLOG,
    "large: /dashboard/dead-letters/discard?error": ACTED,
    "large: /dashboard/dead-letters/replay?error": ACTED,
    "administrator: /dashboard/dead-letters/replay?error": ACTED,
    "administrator: /dashboard/dead-letters/discard?error": ACTED,
    "small: -- Count successful and failed attempts per second.": LATELY,
    "small: -- Return how long recent attempts took.": LATELY,
    "small: -- Return the busiest tasks of the last minute.": LATELY,
    "small: select count(*) from onceward.attempts a": LATELY,
    "administrator: -- Count successful and failed attempts per second.": LATELY,
    "administrator: -- Return how long recent attempts took.": LATELY,
    "administrator: -- Return the busiest tasks of the last minute.": LATELY,
    "small: -- Return how many seconds the oldest due work": BACKLOG,
    "administrator: -- Return how many seconds the oldest due work": BACKLOG,
}
"""The same, of statements that are not part of every run."""
OF_APPS: dict[str, str] = {
    "administrator: select (r.id)::text as _id": ALL_ORGANIZATIONS,
    "administrator: select count(*) from (select 1 from": ALL_ORGANIZATIONS,
    "administrator: select * from ( select r.id as id, (r.task)::text as label": "jobs by a text: windows of all",
    "administrator: /dashboard/dead-letters/": ACTED,
    "administrator: -- Count dead letters by task": "groups of all dead letters",
    "administrator: -- Return the size of each": "a report of the space in tables",
    "administrator: onceward engagement simulate": "makes a database of its own",
    "administrator: select * from coursegen.place_in_line": LINE,
    "large: select * from coursegen.place_in_line": LINE,
    "small: select * from coursegen.place_in_line": LINE,
    "small: select (r.id)::text as _id, (r.id)::text as _sort": "one row, joined with its student by a scan",
}
"""The same, of the apps and of commands."""


@dataclass
class Grown:
    """A process with the two organizations, in the thorough run that of all apps."""

    process: Process
    url: str
    keys: dict[str, str]
    """By viewer."""
    organizations: dict[str, UUID | None]

    @property
    def app(self) -> Any:
        assert self.process.web is not None
        return self.process.web._server.config.app  # pyright: ignore

    @property
    def routes(self) -> list[str]:
        assert self.process.context is not None
        found = route_table(self.process.context)
        return sorted({each.path for each in found if each.method == "GET"})


@pytest.fixture
async def grown(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> AsyncIterator[Grown]:
    monkeypatch.setattr(pagination, "BUDGET_S", 10.0)  # the bound on rows ends a search, not the clock
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, shutdown_grace_s=1).using(
        TrustSettings(secret_key=SecretStr("k" * 32))
    )
    process = Process(bundled.app if thorough else Onceward("grown"), settings, FEATURES)
    await process.start({"web"})
    try:
        db: Database = process.database
        async with db.transaction(role="engine") as tx:
            large = await create_organization(tx, "large", name="Large", actor="test")
            small = await create_organization(tx, "small", name="Small", actor="test")
            of_small = await create_key(
                tx, name="k", organization=small.organization_id, scopes=["owner"], actor="test"
            )
            of_large = await create_key(
                tx, name="k", organization=large.organization_id, scopes=["owner"], actor="test"
            )
            of_all = await create_key(tx, name="k", organization=None, scopes=["admin"], actor="test")
        own = await Database.open(database_url, min_size=1, max_size=1)
        await fill(own, ROWS, large=large.organization_id, small=small.organization_id, apps=thorough)
        await own.close()
        keys = {"small": of_small.text, "large": of_large.text, "administrator": of_all.text}
        ids = {"small": small.organization_id, "large": large.organization_id, "administrator": None}
        yield Grown(process, database_url, keys, ids)
    finally:
        await process.stop()


async def ask(client: httpx.AsyncClient, url: str) -> tuple[httpx.Response, Reading]:
    with reading() as read:
        answer = await client.get(url)
    assert answer.status_code < 500 or any(each in url for each in MADE_UP), (url, answer.text[:500])
    return answer, read


async def everything(grown: Grown, viewer: str) -> dict[str, Reading]:
    """Ask every route, filter and link once; return what each question has read."""
    paths = grown.routes
    routes = Routes(paths)
    headers = {"Authorization": f"Bearer {grown.keys[viewer]}"}
    read: dict[str, Reading] = {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=grown.app), base_url="http://localhost", headers=headers, timeout=60
    ) as client:
        document = (await client.get("/api/v1/openapi.json")).json()
        waiting = [*NAMES, *(path for path in paths if "{" not in path)]
        asked: set[str] = set()
        followed = {path for path in paths if "{" not in path}
        while waiting:
            url = waiting.pop(0)
            kind = routes.kind(url)
            if kind is None or url in asked or kind.partition("?")[0].endswith(REPORTS):
                continue
            asked.add(url)
            answer, found = await ask(client, url)
            before = read.get(kind)
            if before is None or (found.pages, found.rows) > (before.pages, before.rows):
                read[kind] = found
            if "?" not in url and kind in document["paths"]:
                more = list(parameters(document["paths"][kind].get("get", {})))
                waiting += [with_filter(url, name, value) for name, value in more]
            elif answer.headers.get("content-type", "").startswith("text/html"):
                if "?" not in url:
                    waiting += [with_filter(url, name, value) for name, value in filters(answer.text)]
                for link in links(answer.text):
                    if (new := routes.kind(link)) is not None and new not in followed:
                        followed.add(new)
                        waiting.append(link)
    return read


async def live_queries(grown: Grown, viewer: str) -> dict[str, Reading]:
    """Run each live query of the apps once, about rows of the small organization."""
    assert grown.process.context is not None
    node = grown.process.context.part(LiveNode)
    organization = grown.organizations[viewer]
    async with grown.process.database.acquire() as conn:
        await node.hub.tables.load(conn)
    read: dict[str, Reading] = {}
    for name, definition in sorted(bundled.app.live.queries.items()):
        fields = definition.model.model_fields.items()
        needed = {key: ONE if each.annotation is UUID else "typed" for key, each in fields if each.is_required()}
        arguments, _ = definition.load(needed)
        who = Viewer(organization, everything=organization is None)
        with reading() as found:
            await run(grown.process.database, node.hub.tables, definition, arguments, who, timeout_s=60)
        read[f"live query {name}"] = found
    return read


async def commands(grown: Grown, viewer: str) -> dict[str, Reading]:
    """Run each command that lists something, for the organization, or for all where a command knows none."""
    read: dict[str, Reading] = {}
    features = FEATURES.plus(bundled.app.features())
    for words, of_organization in listings(features):
        if of_organization == (viewer == "administrator"):
            continue
        with reading() as found:
            result = await asyncio.to_thread(call, features, words, viewer if of_organization else None)
        refused = isinstance(result.exception, SystemExit) or type(result.exception).__name__ == "CommandFailed"
        assert result.exit_code == 0 or refused, (words, result.output[-500:], result.exception)
        read[f"onceward {' '.join(words)}"] = found
    return read


def too_much(viewer: str, read: dict[str, Reading]) -> dict[str, str]:
    """Return the statements that read too much, with the question of which each read most."""
    over: dict[str, tuple[int, str]] = {}
    for question, each in read.items():
        if each.pages > MOST_PAGES and each.worst.pages <= MOST_PAGES and each.worst.unshown <= MOST_ROWS[viewer]:
            over[f"{viewer}: {question}"] = (each.pages, f"{each.pages} pages in {len(each.statements)} statements")
        for statement in each.statements:
            times = LONGER if "longer" in question else 1  # a search that goes on at the request of the viewer
            if statement.pages > times * MOST_PAGES or statement.unshown > times * MOST_ROWS[viewer]:
                text = f"{viewer}: {statement.name}"
                size = max(statement.pages, statement.unshown)
                if size > over.get(text, (0, ""))[0]:
                    over[text] = (size, f"{statement.pages} pages, {statement.unshown} rows not shown, for {question}")
    return {text: what for text, (_, what) in over.items()}


@pytest.mark.timeout(3600)
async def test_a_question_reads_no_more_than_it_shows(
    grown: Grown, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """The thorough run asks as the large organization too, and all apps, live queries and listing commands."""
    measure(monkeypatch)
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", grown.url)
    monkeypatch.setenv("ONCEWARD_APP", "onceward_apps.all:app")
    over: dict[str, str] = {}
    viewers = tuple(viewer for viewer in grown.keys if thorough or viewer != "large")
    for viewer in viewers:
        read = await everything(grown, viewer)
        if thorough:
            read |= await live_queries(grown, viewer) | await commands(grown, viewer)
        over |= too_much(viewer, read)
    new = {
        statement: what for statement, what in over.items() if not statement.startswith((*KNOWN, *SOMETIMES, *OF_APPS))
    }
    assert not new, "\n".join(f"{statement}: {what}" for statement, what in sorted(new.items()))
    asked = [known for known in KNOWN if known.startswith(viewers)]
    gone = [known for known in asked if not any(statement.startswith(known) for statement in over)]
    assert not gone, f"repaired: remove it from the list: {gone}"
