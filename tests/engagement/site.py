"""A running process with engagement, for tests of its API and its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
from pydantic import SecretStr

from onceward import Onceward
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.schedules import run_here
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.organizations import set_member
from onceward.trust.sessions import create_link
from onceward.trust.settings import TrustSettings
from onceward_apps.engagement import app as engagement

URL = "/api/v1/engagement"


class Site:
    def __init__(self, runtime: Process, http: aiohttp.ClientSession, key: str, organization: UUID) -> None:
        self.runtime = runtime
        self.db = runtime.database
        self._http = http
        self.key = key
        self.organization = organization

    async def call(self, method: str, path: str, *, key: str | None = None, **options: Any) -> tuple[int, Any]:
        assert self.runtime.web is not None
        headers = {"Authorization": f"Bearer {key or self.key}"}
        async with self._http.request(method, self.runtime.web.url + path, headers=headers, **options) as reply:
            text = await reply.text()
            return reply.status, await reply.json(content_type=None) if text[:1] in ("{", "[") else text

    @property
    def url(self) -> str:
        assert self.runtime.web is not None
        return self.runtime.web.url

    async def login(self, email: str) -> str:
        """Return a link that logs an operator of the organization in."""
        async with self.db.transaction(role="engine") as tx:
            user = await set_member(tx, self.organization, email, "operator", actor="test")
            return f"{self.url}/login?token={await create_link(tx, user, actor='test')}"

    async def run(self, name: str) -> Any:
        assert self.runtime.engine is not None
        return await run_here(self.db, engagement.schedules[name], open_tx=self.runtime.engine.open_tx, by="test")


@asynccontextmanager
async def opened(database_url: str, folder: Path, app: Onceward) -> AsyncIterator[Site]:
    settings = Settings(
        database_url=SecretStr(database_url), data_dir=folder, port=0, pool_max=6, shutdown_grace_s=1
    ).using(TrustSettings(secret_key=SecretStr("k" * 32)))
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"web"})
    async with aiohttp.ClientSession() as http:
        try:
            async with runtime.database.transaction(role="engine") as tx:
                made = await create_organization(tx, "nexfin", name="NexFin", actor="test")
                key = await create_key(
                    tx, name="k", organization=made.organization_id, scopes=["operator"], actor="test"
                )
            yield Site(runtime, http, key.text, made.organization_id)
        finally:
            await runtime.stop()


def ago(**units: float) -> str:
    return (datetime.now(UTC) - timedelta(**units)).isoformat()


async def add_user(site: Site, *, days: float, **more: Any) -> str:
    user = str(uuid4())
    profile = {"whatsapp_jid": "+5511987654321", "locale": "pt-BR", "last_activity_at": ago(days=days), **more}
    status, answer = await site.call("PUT", f"{URL}/users/{user}", json=profile)
    assert status == 200, answer
    return user
