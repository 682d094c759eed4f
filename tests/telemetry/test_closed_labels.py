"""Nobody who sends requests can make `/metrics` grow: label values are closed sets or ids of configured objects."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import aiohttp
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from yarl import URL

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.telemetry.metrics import ALIASES, REGISTRY, declared
from tests.inbox.api import Client, Sender, client_for, runtime, session
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


async def attack_with_a_key(session: aiohttp.ClientSession, owner: Client) -> None:
    """Send what a customer with a key may send, with new words where names are expected."""
    word = uuid4().hex
    for method, path, body in (
        ("POST", "/publish", {"type": f"order.{word}", "data": {word: word}}),
        ("PUT", f"/event-types/{word}", {"description": word}),
        ("POST", "/endpoints", {"url": f"https://{word}.example/", "events": [word], "description": word}),
        ("POST", "/sources", {"name": f"s{word}", "provider": "stripe", "secrets": [word * 2]}),
        ("POST", "/sources", {"name": word, "provider": word}),
        ("POST", "/jobs", {"task": word, "args": {word: word}}),
        ("POST", "/workflows", {"name": word}),
        ("POST", "/messages", {"channel": word, "template": word, "to": word}),
        ("POST", "/notifications", {"template": word, "user_id": word}),
        ("POST", "/keys", {"name": word, "scopes": [word]}),
        ("POST", f"/schedules/{word}/run", {}),
        ("POST", f"/sources/{word}/test", {"type": word}),
        ("POST", "/dead-letters/replay", {"kind": word}),
        ("GET", f"/jobs?queue={word}&task={word}", {}),
        ("GET", f"/events?type={word}&source={word}", {}),
        ("GET", f"/audit?action={word}", {}),
    ):
        status, _ = await owner(method, path, **body)
        assert status < 500, (method, path)


async def attack_live(session: aiohttp.ClientSession, owner_key: str) -> None:
    """Send new words over WebSockets and server-sent events: before, in and after the first message."""
    word = uuid4().hex
    for origin in (f"https://{word}.example", None):
        headers = {"user-agent": word, **({"origin": origin} if origin else {})}
        for first in ({"type": word}, {"type": "hello", "token": word}, {"type": "hello", "token": owner_key}):
            try:
                async with session.ws_connect("/live", headers=headers, protocols=[word]) as socket:
                    await socket.send_str(json.dumps({word: word, **first}))
                    for message in (
                        {"type": "subscribe", "id": 1, "query": word, "arguments": {word: word}},
                        {"type": "follow", "id": 2, "topic": f"{word}/{word}"},
                        {"type": word},
                    ):
                        await socket.send_str(json.dumps(message))
                    await socket.send_str(word)
                    while (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.TEXT:
                        pass
            except (aiohttp.WSServerHandshakeError, aiohttp.ClientConnectionError):
                continue
    async with session.get(f"/live/sse?query={word}&token={word}", headers={"last-event-id": word}) as answer:
        assert answer.status < 500


async def test_customers_and_browsers_with_new_words_add_no_series(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    key = owner.key
    await attack_with_a_key(session, owner)
    await attack_live(session, key)
    before = series()
    await attack_with_a_key(session, owner)
    await attack_live(session, key)
    assert sorted(series() - before) == []


def test_every_name_begins_with_the_product_and_ends_in_a_base_unit() -> None:
    FEATURES.load("metrics")
    apps = ("clinic_", "coursegen_", "engagement_", "learning_", "ticketing_")
    names = {each.name for each in declared()} - set(ALIASES)
    assert {each for each in names if not each.startswith(("onceward_", "process_", *apps))} == set()
    others = ("_ms", "_milliseconds", "_micros", "_micros_total", "_minutes", "_hours", "_kb", "_mb", "_percent")
    assert {each for each in names if each.endswith(others)} == set()
    assert set(ALIASES) == {"webhook_processing_total", "webhook_dead_letter_total", "webhook_replay_total"}
    assert {f"onceward_{name}" for name in ALIASES} == set(ALIASES.values())


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
