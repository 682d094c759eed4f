"""A site with live queries on a real port, and clients that keep every message they receive."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.live import Credentials, LiveNode, LiveOptions
from onceward.live.credentials import Authenticate
from onceward.live.difference import apply
from onceward.settings import Settings
from onceward.trust import Identity, NotAuthenticated
from onceward.web import Dispatcher, WebServer
from onceward.web.asgi import Mount

SCHEMA = """
create schema shop;
create table shop.seats (
    id bigint generated always as identity primary key,
    organization_id uuid,
    event_id uuid not null,
    label text not null default '',
    status text not null default 'free'
);
create index on shop.seats (event_id);
select onceward.protect('shop.seats');
grant usage on schema shop to onceward_app, onceward_engine;
grant usage on all sequences in schema shop to onceward_app;
select onceward.watch('shop.seats', key => 'event_id');
create table shop.notes (id int primary key, body text);
grant select on shop.notes to onceward_app;
"""


async def authenticate(shown: Credentials) -> Identity | None:
    """Tokens of tests: `<organization>/<user>/<scope>`; nothing at all is nobody."""
    if shown.token is None:
        return None
    try:
        organization, user, scope = shown.token.split("/")
        scopes: Any = frozenset({scope})
        return Identity("token", None if organization == "-" else UUID(organization), scopes, sub=user, label=user)
    except ValueError:
        raise NotAuthenticated("no such token") from None


class Site:
    """One node and its address."""

    def __init__(
        self, db: Database, app: Onceward, *, authenticate: Authenticate = authenticate, **options: Any
    ) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry)
        self.engine.wakes_live = True
        self.node = LiveNode(
            db, app.live, waker=self.engine.waker, options=LiveOptions(**options), authenticate=authenticate
        )
        settings = Settings(port=0, shutdown_grace_s=1)

        async def nothing(scope: Any, receive: Any, send: Any) -> None:
            raise AssertionError("only /live is served here")

        dispatcher = Dispatcher(nothing)
        dispatcher.mount(Mount("/live", self.node.endpoint))
        self.web = WebServer(dispatcher, settings)

    async def start(self) -> None:
        await self.engine.start()
        await self.node.start()
        await self.web.start()

    async def stop(self) -> None:
        await self.node.stop()
        await self.web.stop()
        await self.engine.stop()

    @property
    def address(self) -> str:
        return f"ws://127.0.0.1:{self.web.port}/live"


class Client:
    """Keeps the newest result of each subscription, the messages of each topic, and every frame."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.results: dict[int, Any] = {}
        self.hashes: dict[int, str] = {}
        self.same: set[int] = set()
        self.messages: dict[int, list[Any]] = {}
        self.topic_versions: dict[int, str] = {}
        self.resets: set[int] = set()
        self.errors: dict[int | None, dict[str, Any]] = {}
        self.frames: list[dict[str, Any]] = []
        self.reached: set[int] = set()
        self.welcome: dict[str, Any] | None = None
        self.version = ""
        self.changed = asyncio.Event()
        self.closed_with: int | None = None
        self._ids = itertools.count(1)
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, address: str, token: str | None, **hello: Any) -> Client:
        client = cls(await connect(address, compression=None, max_size=None))
        await client.say("hello", token=token, **hello)
        return client

    async def say(self, type: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": type, **fields}))

    async def subscribe(self, query: str, *, hash: str | None = None, **arguments: Any) -> int:
        id = next(self._ids)
        await self.say("subscribe", id=id, query=query, arguments=arguments, hash=hash)
        return id

    async def follow(self, topic: str, **fields: Any) -> int:
        id = next(self._ids)
        await self.say("follow", id=id, topic=topic, **fields)
        return id

    async def wait_for(self, version: str, *, timeout_s: float = 10) -> None:
        id = next(self._ids)
        await self.say("wait", id=id, version=version)
        await self.until(lambda: id in self.reached, timeout_s=timeout_s)

    async def until(self, holds: Callable[[], bool], *, timeout_s: float = 10) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    async def close(self) -> None:
        await self.socket.close()
        await self._task

    async def _listen(self) -> None:
        with contextlib.suppress(ConnectionClosedError):
            async for text in self.socket:
                self._take(json.loads(text))
                self.changed.set()
        self.closed_with = self.socket.close_code
        self.changed.set()

    def _take(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "batch":
                for each in message["messages"]:
                    self._take(each)
            case "welcome":
                self.welcome = message
            case "error":
                self.errors[message["id"]] = message
            case "frame":
                self.frames.append(message)
                assert message["from"] == self.version
                self.version = message["to"]
                self._take_frame(message)

    def _take_frame(self, frame: dict[str, Any]) -> None:
        for each in frame.get("results", ()):
            if "data" in each:
                self.results[each["id"]], self.hashes[each["id"]] = each["data"], each["hash"]
            elif "changes" in each:
                assert each["from"] == self.hashes[each["id"]]
                self.results[each["id"]] = apply(self.results[each["id"]], each["changes"])
                self.hashes[each["id"]] = each["hash"]
            elif each.get("same"):
                self.same.add(each["id"])
            else:
                self.errors[each["id"]] = each["error"]
        for each in frame.get("topics", ()):
            if each.get("reset"):
                self.resets.add(each["id"])
            self.topic_versions[each["id"]] = each["version"]
            self.messages.setdefault(each["id"], []).extend(message["data"] for message in each["messages"])
        self.reached.update(frame.get("reached", ()))


Start = Callable[..., Awaitable[Site]]
Open = Callable[..., Awaitable[Client]]


@pytest.fixture
async def shop(db: Database) -> Database:
    await db.execute(SCHEMA)
    return db


@pytest.fixture
async def site(shop: Database) -> AsyncIterator[Start]:
    started: list[Site] = []

    async def start(app: Onceward, **options: Any) -> Site:
        each = Site(shop, app, **options)
        await each.start()
        started.append(each)
        return each

    yield start
    for each in started:
        await each.stop()


@pytest.fixture
async def client() -> AsyncIterator[Open]:
    opened: list[Client] = []

    async def open(site: Site, organization: UUID | None = None, user: str = "ada", scope: str = "viewer") -> Client:
        token = f"{organization or '-'}/{user}/{scope}"
        each = await Client.open(site.address, token)
        opened.append(each)
        return each

    yield open
    for each in opened:
        await each.close()


@pytest.fixture
def organization() -> UUID:
    return uuid4()
