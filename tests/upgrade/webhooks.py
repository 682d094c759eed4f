"""Sources, and signed webhooks to them."""

from __future__ import annotations

import time
from uuid import UUID

import aiohttp

from onceward.db import Database
from onceward.inbox import sources
from onceward.settings import Settings
from onceward.trust.secrets import secret_box
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider

SECRET = "whsec_of_the_tests_which_is_long_enough"


async def add_source(db: Database, settings: Settings, name: str, organization: UUID | None = None) -> None:
    async with db.transaction(role="engine") as tx:
        new = sources.NewSource(name=name, provider="stripe", secrets=(SECRET,), organization=organization)
        await sources.add(tx, secret_box(settings), new, actor="operator:cli")


async def send(http: aiohttp.ClientSession, source: str, id: str) -> int:
    """Send a signed webhook and return the status of the answer."""
    provider = get_provider("stripe")
    body = provider.encode(provider.sample("charge.succeeded", {"id": id}))
    headers = dict(provider.sign(SourceConfig(provider="stripe", secrets=(SECRET,)), body, time.time()))
    async with http.post(f"/webhooks/{source}", data=body, headers=headers) as answer:
        return answer.status
