"""Receive webhooks in a test as a running server does: signed by the sender, verified, stored, routed to a handler."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import orjson

from onceward.app import Onceward
from onceward.engine import Engine
from onceward.inbox.inbox import Inbox
from onceward.inbox.source import Mode
from onceward.inbox.sources import NewSource, add
from onceward.trust import SecretBox
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider

SECRET = "whsec_dGhlIHNlY3JldCBvZiB0aGUgdGVzdHMsIDMyIGJ5dGVz"
BASE64_SECRET = SECRET.removeprefix("whsec_")
"""The secret of senders whose secrets are plain base64."""
KEY = "the key of the tests which is long enough"
"""The value of ONCEWARD_SECRET_KEY in the processes and engines of the plugin."""
BOX = SecretBox([KEY])


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The answer to one webhook."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class TestInbox:
    """The webhook receiver of an app, without a socket.

    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("stripe")
        await inbox.trigger("charge.succeeded", source="stripe")
    await drain(engine)
    """

    __test__ = False  # not a test class, in spite of its name

    def __init__(self, engine: Engine, app: Onceward) -> None:
        self.engine = engine
        self._inbox = Inbox(
            engine.db,
            app.registry,
            app.handlers,
            engine.waker,
            open_tx=engine.open_tx,
            box=BOX,
            environ={},
            refresh_s=0.2,
        )
        self._configs: dict[str, SourceConfig] = {}

    async def __aenter__(self) -> Self:
        await self._inbox.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inbox.stop()

    async def add_source(
        self,
        name: str,
        *,
        provider: str | None = None,
        organization: UUID | None = None,
        mode: Mode = "ack",
        options: Mapping[str, Any] | None = None,
        public_url: str | None = None,
        secret: str | None = None,
    ) -> UUID:
        """Add a source with a secret of its own. The default provider has the name of the source. Return its id."""
        chosen = provider or name
        secret = secret or get_provider(chosen).sample_secret
        new = NewSource(
            name=name,
            provider=chosen,
            secrets=(secret,),
            organization=organization,
            mode=mode,
            options=options or {},
            public_url=public_url,
        )
        async with self.engine.db.transaction(role="engine") as tx:
            added = await add(tx, BOX, new, actor="test")
        await self._inbox.catalog.refresh()
        self._configs[name] = SourceConfig(
            provider=chosen, secrets=(secret,), options=options or {}, public_url=public_url
        )
        return added.webhook_id

    async def post(
        self, payload: Any, *, source: str, type: str = "", event_id: str = "", age_s: float = 0.0
    ) -> WebhookResponse:
        """Post a payload (or a body as bytes), signed by the sender `age_s` seconds ago.

        `type` and `event_id` are for providers that send them in a header. Without `event_id`, each call is a new
        event.
        """
        config = self._config(source)
        provider = get_provider(config.provider)
        body = payload if isinstance(payload, bytes) else provider.encode(payload)
        path, sent_at = f"/webhooks/{source}", time.time() - age_s
        request = provider.request(config, body, sent_at, type=type, path=path, event_id=event_id)
        return await self._call(path, request.body, request.headers, request.query)

    async def trigger(self, type: str, /, *, source: str, **fields: Any) -> WebhookResponse:
        """Post the provider's sample of this type with new ids. `fields` replaces values at dotted paths."""
        provider = get_provider(self._config(source).provider)
        return await self.post(provider.encode(provider.sample(type, fields)), source=source, type=type)

    def _config(self, source: str) -> SourceConfig:
        if source not in self._configs:
            known = ", ".join(sorted(self._configs)) or "none"
            raise LookupError(f"no source {source!r}: call `await inbox.add_source({source!r})` first; known: {known}")
        return self._configs[source]

    async def _call(self, path: str, body: bytes, headers: Mapping[str, str], query: str = "") -> WebhookResponse:
        """Send one request through the ASGI callable."""
        given = {"content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode("latin-1"),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
            "client": ("203.0.113.9", 4242),
        }
        incoming = [{"type": "http.request", "body": body, "more_body": False}]
        outgoing: list[Any] = []

        async def receive() -> Any:
            return incoming.pop() if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            outgoing.append(message)

        await self._inbox(scope, receive, send)
        answered = {name.decode(): value.decode() for name, value in outgoing[0]["headers"]}
        content = b"".join(each.get("body", b"") for each in outgoing[1:])
        return WebhookResponse(outgoing[0]["status"], answered, content)
