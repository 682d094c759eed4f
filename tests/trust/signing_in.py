"""A person with a browser, who signs in to the dashboard of a running process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.trust.sessions import link_for

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


class Browser:
    """A browser with cookies. Forms are sent with the CSRF token of the page that was opened last."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"User-Agent": AGENT})
        self.csrf = ""
        self.status = 0
        self.path = ""
        self.text = ""

    async def get(self, path: str) -> str:
        async with self.http.get(self.url + path) as reply:
            return await self._read(reply)

    async def post(self, path: str, **form: str) -> str:
        data = {"csrf_token": self.csrf, **form}
        headers = {"Referer": self.url + self.path, "Origin": self.url}
        async with self.http.post(self.url + path, data=data, headers=headers) as reply:
            return await self._read(reply)

    async def api(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        headers = {"X-CSRF-Token": self.csrf, "Origin": self.url}
        async with self.http.request(method, self.url + path, headers=headers, **options) as reply:
            text = await reply.text()
            return reply.status, (await reply.json(content_type=None)) if text else None

    async def log_in(self, db: Database, email: str) -> str:
        async with db.transaction(role="engine") as tx:
            token = await link_for(tx, email, actor="test")
        await self.get(f"/login?token={token}")
        return await self.post("/login", token=token)

    async def _read(self, reply: aiohttp.ClientResponse) -> str:
        self.status, self.path, self.text = reply.status, reply.url.path, await reply.text()
        found = re.search(r'name="csrf" content="([^"]+)"', self.text)
        self.csrf = found[1] if found else self.csrf
        return self.text


@asynccontextmanager
async def running(database_url: str, **settings: Any) -> AsyncIterator[str]:
    """Run the web part of a process, and yield its URL."""
    process = Process(
        Onceward("test"),
        load_settings(
            FEATURES.settings,
            database_url=SecretStr(database_url),
            port=0,
            pool_max=5,
            secret_key=SecretStr("k" * 40),
            **settings,
        ),
        FEATURES,
    )
    await process.start({"web"})
    try:
        assert process.web is not None
        yield process.web.url
    finally:
        await process.stop()


@asynccontextmanager
async def browser(url: str) -> AsyncIterator[Browser]:
    opened = Browser(url)
    async with opened.http:
        yield opened
