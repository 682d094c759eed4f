"""Nobody who sends requests can make `/metrics` grow: label values are closed sets or ids of configured objects."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import aiohttp
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from yarl import URL

from onceward.db import Database
from onceward.telemetry.metrics import REGISTRY
from tests.inbox.api import Sender, client_for, runtime, session
from tests.inbox.conftest import SECRET

__all__ = ["runtime", "session"]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "REPORT", "M-SEARCH", "LINK", "UNLINK", "TRACE")


def series() -> set[tuple[str, ...]]:
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items()))
        for family in REGISTRY.collect()
        for sample in family.samples
    }


async def attack(session: aiohttp.ClientSession, method: str) -> None:
    """Send requests that put new words into everything that a request can say."""
    word = uuid4().hex
    headers = {
        "authorization": f"Bearer {word}",
        "content-type": f"application/{word}",
        "content-encoding": word,
        "host": f"{word}.example",
        "origin": f"https://{word}.example",
        "stripe-signature": f"t=1,v1={word}",
        "traceparent": f"00-{word}-{word[:16]}-01",
        "user-agent": word,
        "x-forwarded-for": "203.0.113." + str(int(word[:2], 16)),
        "x-request-id": word,
    }
    for path in (f"/{word}", f"/api/v1/{word}", "/api/v1/jobs", f"/webhooks/{word}", "/webhooks/shop", "/dashboard"):
        async with session.request(method, URL(f"{path}?{word}={word}"), headers=headers, data=word.encode()) as answer:
            assert answer.status < 500 or answer.status == 501
    types = (f"{word}.created", f"charge.{word}")
    assert [(await Sender(session, "shop")(type=type))[0] for type in types] == [200, 200]


async def test_requests_with_new_words_add_no_series(db: Database, session: aiohttp.ClientSession) -> None:
    owner = await client_for(db, session)
    assert (await owner("POST", "/sources", name="shop", provider="stripe", secrets=[SECRET]))[0] == 201
    for method in METHODS:
        await attack(session, method)
    await asyncio.sleep(0)
    before = series()
    for method in METHODS:
        await attack(session, method)
    assert sorted(series() - before) == []


async def test_metrics_are_open_metrics_for_those_who_accept_it(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}) as answer:
        assert answer.content_type == "application/openmetrics-text"
        families = {each.name: each for each in text_string_to_metric_families(await answer.text())}
    assert {"process_cpu_seconds", "process_open_fds", "onceward_build_info", "onceward_work_finished"} <= set(families)
    assert set(families["onceward_build_info"].samples[0].labels) == {"version", "python"}
    async with session.get("/metrics") as answer:
        assert answer.content_type == "text/plain"
