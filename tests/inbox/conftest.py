"""A post office in a test: an app with handlers, sources, a receiver to post to, and workers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource, add
from onceward.testing import until
from onceward.trust import SecretBox
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tests.engines import Bench, started_benches

SECRET = "whsec_a_secret_of_the_tests_32_chars"
BOX = SecretBox(["a key of the tests, which is long enough"])


@dataclass(frozen=True)
class Reply:
    """What the receiver answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


async def call(
    app: Any,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    query: str = "",
    pieces: list[bytes] | None = None,
) -> Reply:
    """One request through the ASGI callable, without a socket."""
    parts = list(pieces if pieces is not None else [body])
    given = {"content-length": str(len(body)), **(headers or {})} if pieces is None else dict(headers or {})
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
        "client": ("203.0.113.9", 4242),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        if parts:
            piece = parts.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(parts)}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))


class Office(Bench):
    """Everything between a sender and a handler."""

    def __init__(self, db: Database, app: Onceward) -> None:
        super().__init__(db, app)
        self.inbox = Inbox(
            db,
            app.registry,
            app.handlers,
            self.engine.waker,
            open_tx=self.engine.open_tx,
            box=BOX,
            environ={},
            refresh_s=0.2,
        )
        self.configs: dict[str, SourceConfig] = {}

    async def start(self) -> None:
        await super().start()
        await self.inbox.start()

    async def stop(self) -> None:
        await self.stop_workers()
        await self.inbox.stop()
        await self.engine.stop()

    async def source(
        self, name: str = "stripe", *, provider: str | None = None, secret: str = SECRET, **more: Any
    ) -> UUID:
        """Register a source and make the receiver know it."""
        chosen = provider or name
        async with self.db.transaction(role="engine") as tx:
            made = await add(
                tx,
                BOX,
                NewSource(name=name, provider=chosen, secrets=(secret,) if secret else (), **more),
                actor="test",
            )
        await self.inbox.catalog.refresh()
        self.configs[name] = SourceConfig(
            provider=chosen,
            secrets=(secret,) if secret else (),
            options=more.get("options", {}),
            public_url=more.get("public_url"),
        )
        return made.webhook_id

    def signed(self, name: str, body: bytes, *, age_s: float = 0.0, **extra: str) -> dict[str, str]:
        config = self.configs[name]
        return get_provider(config.provider).sign(config, body, time.time() - age_s, **extra)

    async def post(
        self,
        type: str = "charge.succeeded",
        *,
        name: str = "stripe",
        fields: Mapping[str, Any] | None = None,
        path: str = "",
    ) -> Reply:
        """A genuine webhook of that type."""
        provider = get_provider(self.configs[name].provider)
        body = provider.encode(provider.sample(type, fields))
        return await self.send(body, name=name, path=path)

    async def send(self, body: bytes, *, name: str = "stripe", path: str = "") -> Reply:
        return await call(self.inbox, path or f"/webhooks/{name}", body, self.signed(name, body))

    async def event(self, seq: int) -> Any:
        return await self.db.fetchrow(
            "select e.*, onceward.payload_of(e) as payload from onceward.webhook_events e where seq = $1", seq
        )

    async def status(self, seq: int, *wanted: str, within_s: float = 10.0) -> Any:
        """Wait until the event has one of these statuses."""
        return await until(lambda: self._has(seq, wanted), timeout_s=within_s)

    async def _has(self, seq: int, wanted: tuple[str, ...]) -> Any:
        row = await self.event(seq)
        return row if row is not None and row["status"] in wanted else None


@pytest.fixture
async def office(db: Database) -> AsyncIterator[Callable[[Onceward], Awaitable[Office]]]:
    async with started_benches(lambda app: Office(db, app)) as start:
        yield start
