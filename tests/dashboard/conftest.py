"""A running shop to look at, over HTTP and in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.browser import CHROMIUM_ARGUMENTS
from tests.dashboard.shop import World, open_shop


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    made = await open_shop(database_url)
    yield made
    await made.runtime.stop()


@dataclass
class Person:
    """Somebody who is logged in, without a browser."""

    world: World
    http: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, str, Any]:
        async with self.http.get(self.world.url + path, allow_redirects=False) as reply:
            return reply.status, await reply.text(), reply.headers

    async def post(self, path: str, *, csrf: bool = True, **form: str) -> tuple[int, str, Any]:
        if csrf:
            form["csrf_token"] = await self.csrf()
        async with self.http.post(self.world.url + path, data=form, allow_redirects=False) as reply:
            return reply.status, await reply.text(), reply.headers

    async def csrf(self) -> str:
        _, page, _ = await self.get("/dashboard/organizations")
        found = re.search(r'name="csrf" content="([^"]+)"', page)
        assert found is not None
        return found[1]

    async def choose(self, slug: str) -> None:
        assert (await self.post("/dashboard/organizations", organization=slug))[0] == 303


LogIn = Callable[[str], Awaitable[Person]]


@pytest.fixture
async def log_in(world: World) -> AsyncIterator[LogIn]:
    opened: list[aiohttp.ClientSession] = []

    async def enter(email: str) -> Person:
        http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        opened.append(http)
        token = (await world.login(email)).partition("token=")[2]
        async with http.post(f"{world.url}/login", data={"token": token}, allow_redirects=False) as reply:
            assert reply.status == 303
        return Person(world, http)

    yield enter
    for http in opened:
        await http.close()


OpenPage = Callable[..., Awaitable[Any]]


@pytest.fixture
async def open_page(world: World) -> AsyncIterator[OpenPage]:
    """`await open_page("vera@...")`: a page in a browser of its own, logged in through its one-time link."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)

        async def enter(email: str, **options: Any) -> Any:
            context = await browser.new_context(**options)
            page: Any = await context.new_page()  # and the problems that it reports, as an attribute
            page.set_default_timeout(15_000)
            page.problems = []
            page.on("pageerror", lambda error: page.problems.append(str(error)))
            page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
            await page.goto(await world.login(email))
            await page.get_by_role("button", name="Log in").click()
            await page.wait_for_url(world.url + "/")
            return page

        yield enter
        await browser.close()
