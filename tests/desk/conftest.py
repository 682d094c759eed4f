"""A running library with a desk, its people and some books."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from pydantic import SecretStr

from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.testing import TestDatabases
from onceward.trust import create_organization
from onceward.trust.organizations import set_member
from onceward.trust.sessions import create_link
from tests.desk.library import app

TABLES = (Path(__file__).parent / "library.sql").read_text()

PEOPLE = (
    ("olga@acme.example", "owner", ()),
    ("otto@acme.example", "operator", ()),
    ("vera@acme.example", "viewer", ()),
    ("lena@acme.example", "member", ("library.librarian",)),
    ("nobody@acme.example", "member", ()),
)


@dataclass
class Library:
    process: Process
    acme: UUID
    bolt: UUID

    @property
    def db(self) -> Any:
        return self.process.database

    @property
    def url(self) -> str:
        assert self.process.web is not None
        return self.process.web.url

    async def add(self, title: str, *, organization: UUID | None = None, **values: Any) -> str:
        names = ["organization_id", "title", "author", *values]
        given = [organization or self.acme, title, values.pop("author", "Ann Author"), *values.values()]
        names = list(dict.fromkeys(names))
        places = ", ".join(f"${number}" for number in range(1, len(given) + 1))
        return str(
            await self.db.fetchval(
                f"insert into library.books ({', '.join(names)}) values ({places}) returning id", *given
            )
        )

    async def token(self, email: str) -> str:
        async with self.db.transaction(role="engine") as tx:
            user = await tx.fetchval("select user_id from onceward.users where email = $1", email)
            return await create_link(tx, user, actor="test")


@pytest.fixture
async def library(database_url: str) -> AsyncIterator[Library]:
    settings = load_settings(
        FEATURES.settings, port=0, pool_max=8, poll_interval_ms=200, database_url=SecretStr(database_url)
    )
    process = Process(app, settings, FEATURES)
    async with app_tables(database_url):
        await process.start()
        async with process.database.transaction(role="engine") as tx:
            acme = (await create_organization(tx, "acme", name="Acme Library", actor="test")).organization_id
            bolt = (await create_organization(tx, "bolt", name="Bolt Library", actor="test")).organization_id
            for email, role, desk_roles in PEOPLE:
                await set_member(tx, acme, email, role, desk_roles=desk_roles, actor="test")  # type: ignore[arg-type]
            await set_member(tx, bolt, "bert@bolt.example", "owner", actor="test")
            await tx.execute("insert into onceward.users (email, name, admin) values ('root@example.org', 'Ada', true)")
        yield Library(process, acme, bolt)
        await process.stop()


def app_tables(url: str) -> Any:
    from contextlib import asynccontextmanager

    import asyncpg

    @asynccontextmanager
    async def made() -> AsyncIterator[None]:
        conn = await asyncpg.connect(url)
        await conn.execute(TABLES)
        await conn.close()
        yield

    return made()


@dataclass
class Reply:
    status: int
    text: str
    headers: Any


@dataclass
class Person:
    library: Library
    http: aiohttp.ClientSession

    async def get(self, path: str) -> Reply:
        async with self.http.get(self.library.url + path, allow_redirects=False) as reply:
            return Reply(reply.status, await reply.text(errors="replace"), reply.headers)

    async def read(self, path: str) -> bytes:
        async with self.http.get(self.library.url + path) as reply:
            assert reply.status == 200
            return await reply.read()

    async def post(self, path: str, **form: str | tuple[str, bytes]) -> Reply:
        page = (await self.get("/dashboard/organizations")).text
        found = re.search(r'name="csrf" content="([^"]+)"', page)
        assert found is not None
        data = aiohttp.FormData({"csrf_token": found[1]})
        for name, value in form.items():
            if isinstance(value, str):
                data.add_field(name, value)
            else:
                data.add_field(name, value[1], filename=value[0])
        async with self.http.post(self.library.url + path, data=data, allow_redirects=False) as reply:
            return Reply(reply.status, await reply.text(), reply.headers)


LogIn = Callable[[str], Awaitable[Person]]


@pytest.fixture
async def log_in(library: Library) -> AsyncIterator[LogIn]:
    opened: list[aiohttp.ClientSession] = []

    async def enter(email: str) -> Person:
        http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        opened.append(http)
        async with http.post(
            f"{library.url}/login", data={"token": await library.token(email)}, allow_redirects=False
        ) as reply:
            assert reply.status == 303
        return Person(library, http)

    yield enter
    for http in opened:
        await http.close()


@pytest.fixture(scope="session")
def apps_databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of all bundled apps."""
    from onceward_apps import all as bundled

    with TestDatabases(server_url, FEATURES.plus(bundled.app.features()).migrations) as databases:
        yield databases


@pytest.fixture
def apps_database_url(apps_databases: TestDatabases) -> Iterator[str]:
    url = apps_databases.create()
    yield url
    apps_databases.release(url)
