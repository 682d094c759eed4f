"""The start page of the demo: `/` leads to it, one click logs in, and it is only for this machine."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import aiohttp
import pytest

from onceward import Onceward
from onceward.feature import EVERY_ROLE, WEB
from onceward.process.process import Process
from onceward_apps.demo import local_pages
from onceward_apps.start_page import PEOPLE, SIMULATED, DeskName, router, use_start_page
from tests.web.operating import started

START = Path(__file__).parents[2] / "apps" / "onceward_apps" / "demo_pages" / "start.html"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    app = Onceward("small")
    app.routes(router)
    app.routes(local_pages)
    app.part("start page", use_start_page, roles=WEB, stage="app")
    process = await started(database_url, roles=set(EVERY_ROLE), app=app)
    yield process
    await process.stop()


async def test_a_visitor_logs_in_with_one_click_and_reads_the_messages(process: Process) -> None:
    async with process.context.engine.transaction() as tx:
        data = {"title": "Hello <b>", "body": "Ada", "metadata": {}, "type": "note", "severity": "info"}
        await tx.send("notification", to="ada@example.org", key="1", data=data)
        await tx.send("notification", to="bob@example.org", key="2", data={"title": "incomplete", "body": "Bob"})
    jar = aiohttp.CookieJar(unsafe=True)  # the server's name is an address
    async with aiohttp.ClientSession(process.web.url, cookie_jar=jar) as http:
        async with http.get("/", headers={"Accept": "text/html"}) as answer:
            assert answer.url.path == "/start"
            page = await answer.text()
        [form] = set(re.findall(r'<form method="post" action="([^"]+)">', page))
        async with http.post(form, headers={"Origin": process.web.url}) as answer:
            assert (answer.status, answer.url.path) == (200, "/")
            assert "Overview" in await answer.text()
        async with http.get("/start/messages") as answer:
            shown = await answer.text()
        assert "ada@example.org" in shown
        assert "bob@example.org" in shown
        assert "Hello &lt;b&gt;" in shown


async def test_one_click_opens_a_page_of_the_dashboard_and_no_other_page(process: Process) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(process.web.url, cookie_jar=jar, headers={"Origin": process.web.url}) as http:
        for desk in ("https://elsewhere.example/", "/elsewhere.example", "metrics"):
            async with http.post("/start/login", data={"desk": desk}, allow_redirects=False) as answer:
                assert answer.status == 422, desk
        async with http.post("/start/login", data={"desk": "clinic"}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/dashboard/clinic")


@pytest.mark.parametrize("active", [True, False])
async def test_the_page_names_a_command_that_a_visitor_can_run(
    process: Process, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    """`make demo` runs in an environment that is not active in the visitor's terminal."""
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(programs) if active else "/nowhere")
    monkeypatch.chdir(programs.parent)
    async with aiohttp.ClientSession(process.web.url) as http, http.get("/start") as answer:
        page = await answer.text()
    command = "onceward" if active else f"{programs.name}/onceward"
    assert f"<code>{command} trigger stripe charge.succeeded" in page


async def test_other_machines_and_other_sites_cannot_use_it(process: Process) -> None:
    async with aiohttp.ClientSession(process.web.url) as http:
        for method, path in (
            ("get", "/start"),
            ("post", "/start/login"),
            ("get", "/start/messages"),
            ("get", "/start/coursegen"),
        ):
            for headers in ({"Host": "rebound.example"}, {"X-Forwarded-For": "203.0.113.7"}, {"Via": "1.1 proxy"}):
                async with http.request(method, path, headers=headers) as answer:
                    assert answer.status == 403, (path, headers)
        assert process.web is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", process.web.port)
        writer.write(b"GET /start/messages HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")  # as nginx asks by default
        assert b" 403 " in await reader.readline()
        writer.close()
        async with http.post("/start/login", headers={"Origin": "https://elsewhere.example"}) as answer:
            assert answer.status == 403
            assert not http.cookie_jar.filter_cookies(answer.url)


def test_the_page_explains_in_four_sentences_and_names_three_things_to_try() -> None:
    text = START.read_text()
    [explanation] = re.findall(r"<h1>.*?</h1>\s*<p>(.*?)</p>", text, re.DOTALL)
    assert len(re.findall(r"\.(?=\s|$)", re.sub(r"<code>.*?</code>", "", explanation))) == 4
    [tasks] = re.findall(r"<ol[^>]*>(.*?)</ol>", text, re.DOTALL)
    assert tasks.count("<li>") == 3
    assert {"/events", "/learn", "/start/coursegen", "/start/messages", "/api/v1/docs", "/metrics"} <= set(
        re.findall(r'href="([^"]+)"', text)
    )
    assert set(re.findall(r'desk_tile\("([^"]+)"', text)) == set(get_args(DeskName)) - {""}


def test_the_people_of_the_demo_work_in_organizations_that_it_has() -> None:
    for desk, person in PEOPLE.items():
        assert person.organization == import_module(f"onceward_apps.{desk}.demo").SLUG
    crowds = {getattr(import_module(f"onceward_apps.{desk}.demo"), "CROWD", None) for desk in PEOPLE} - {None}
    assert crowds < set(SIMULATED)
