"""A running process with an app, and clients of its API: shared by the tests of operator routes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import aiohttp
from pydantic import SecretStr

from onceward import Job, Onceward, Permanent, Run, Tx
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import FeatureSettings, load_settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key


def make_app() -> Onceward:
    app = Onceward("shop")
    app.event_type("order.paid", sample={"id": 1}, description="An order was paid.")

    @app.job(name="fails", max_attempts=1)
    async def fails(job: Job, *, order: int) -> None:  # pyright: ignore[reportUnusedFunction]
        raise Permanent(f"order {order} cannot be packed")

    @app.job(name="packs")
    async def packs(tx: Tx, *, order: int) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"packed {order}"

    @app.every(3600, name="sweep")
    async def sweep(run: Run) -> None:  # pyright: ignore[reportUnusedFunction]
        return None

    return app


async def started(
    database_url: str | None, *given: FeatureSettings, roles: set[Any], app: Onceward | None = None, **options: Any
) -> Process:
    settings = load_settings(
        FEATURES.settings,
        database_url=None if database_url is None else SecretStr(database_url),
        port=0,
        pool_max=8,
        allow_loopback_endpoints=True,
        shutdown_grace_s=0.1,
        secret_key=SecretStr("a key that is long enough for the tests"),
        poll_interval_ms=50,
        **options,
    )
    process = Process(app or make_app(), settings.using(*given), FEATURES)
    await process.start(roles)
    return process


class Client:
    """Sends requests with one API key or token. `organization` is None for a key of the instance."""

    def __init__(self, session: aiohttp.ClientSession, key: str, organization: UUID | None = None) -> None:
        self._session = session
        self.key = key
        self.organization = organization
        self.headers: dict[str, str] = {}

    async def __call__(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        async with self._session.request(method, f"/api/v1{path}", headers=headers, json=body) as response:
            self.headers = {name.lower(): value for name, value in response.headers.items()}
            text = await response.text()
            return response.status, (await response.json(content_type=None)) if text else None


async def client_for(
    db: Database, session: aiohttp.ClientSession, slug: str | None = None, scope: str = "operator"
) -> Client:
    async with db.transaction(role="engine") as tx:
        id = None if slug is None else (await create_organization(tx, slug, actor="test")).organization_id
        made = await create_key(tx, name="test", organization=id, scopes=[scope], actor="test")
    return Client(session, made.text, id)
