"""The OpenAPI document is complete, and a client generated from it works."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from onceward.db import Database
from onceward.process.process import Process
from onceward.web.openapi import operations
from tests.web.operating import client_for, started


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"})
    yield process
    await process.stop()


@pytest.fixture
async def document(process: Process) -> dict[str, Any]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session, session.get("/api/v1/openapi.json") as response:
        return await response.json()


def request_models(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schema of each JSON body, by name."""
    models: dict[str, dict[str, Any]] = {}
    for method, path, operation in operations(document):
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is not None:
            name = schema.get("$ref", f"{method} {path}").rpartition("/")[2]
            models[name] = document["components"]["schemas"].get(name, schema)
    return models


def check_errors(method: str, path: str, operation: dict[str, Any]) -> None:
    """Each error is documented where it can occur: 404 where something is named, 409 where something changes."""
    statuses = set(operation["responses"])
    needs_key = operation.get("security") != []
    expected = {"429", "503"}
    expected |= {"401", "403"} if needs_key else set()
    expected |= {"409"} if method != "get" else set()
    expected |= {"404"} if "{" in path else set()
    expected |= {"422"} if operation.get("parameters") or "requestBody" in operation else set()
    assert expected <= statuses, path
    if method == "get":
        assert "409" not in statuses, path
        assert "404" not in statuses or "{" in path or path.endswith("/public-key"), path
        assert "422" not in statuses or operation.get("parameters"), path
    for status in (each for each in statuses if each[0] in "45"):
        assert set(operation["responses"][status]["content"]) == {"application/problem+json"}, (path, status)


async def test_every_operation_documents_its_errors_and_every_body_has_an_example(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        if path.startswith("/api/"):
            check_errors(method, path, operation)
            assert operation.get("summary"), path
        if method == "post" and path.startswith("/api/"):
            names = [each["name"].lower() for each in operation["parameters"]]
            assert names.count("idempotency-key") == 1, path
    missing = [name for name, schema in request_models(document).items() if not schema.get("examples")]
    assert not missing, " ".join(missing)
    assert [name for name in document["components"]["schemas"] if "__" in name] == [], "two models share a name"
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    assert {"events.list", "events.get", "events.replay", "events.replay_many", "keys.create", "keys.delete"} <= set(
        ids
    )
    public = {path for _, path, operation in operations(document) if operation.get("security") == []}
    assert {path for path in public if path.startswith("/api/")} == {
        "/api/v1/push/public-key",
        "/api/v1/webhook-keys/{organization_id}",
    }


async def test_a_generated_client_calls_the_api(
    db: Database, process: Process, document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        owner = await client_for(db, session, "ours", "owner")
    source = tmp_path / "openapi.json"
    source.write_bytes(orjson.dumps(document))
    (tmp_path / "config.yml").write_text(
        "project_name_override: client\npackage_name_override: shop_client\npost_hooks: []\n"
    )
    generator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", str(source)),
        *("--output-path", str(tmp_path / "made"), "--config", str(tmp_path / "config.yml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await generator.communicate()
    assert generator.returncode == 0, output.decode()
    assert "WARNING" not in output.decode().upper(), output.decode()
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    client = importlib.import_module("shop_client").AuthenticatedClient(base_url=process.web.url, token=owner.key)

    models = importlib.import_module("shop_client.models")

    async def call(tag: str, name: str, *args: Any, **fields: Any) -> Any:
        response = await importlib.import_module(f"shop_client.api.{tag}.{name}").asyncio_detailed(
            *args, client=client, **fields
        )
        assert response.parsed is not None, (name, response.status_code, response.content)
        return response.parsed

    new_key = models.NewApiKey(name="door", scopes=["viewer"])
    made = [await call("access", "keys_create", body=new_key, idempotency_key="k1") for _ in range(2)]
    assert (made[0].secret is not None, made[1].secret) == (True, None), "secrets are not stored"
    new = models.NewEndpoint(url="http://127.0.0.1:9009/x", events=["order.paid"])
    endpoint = await call("outbound_webhooks", "endpoints_create", body=new)
    event = models.NewEvent(type_="order.paid", data={"id": 1})
    published = await call("outbound_webhooks", "publish_create", body=event)
    assert published.deliveries == 1
    [delivery] = await call("outbound_webhooks", "deliveries_list", endpoint_id=endpoint.endpoint.endpoint_id)
    assert delivery.id is not None
    assert await call("jobs", "jobs_list") == []
    dry = models.Selection(kind="job", dry_run=True)
    acted = await call("dead_letters", "dead_letters_replay_many", body=dry)
    assert (acted.done, acted.dry_run) == ([], True)
    refused = await call("jobs", "jobs_cancel", 7, body=models.Why(reason="x"))
    assert isinstance(refused, models.Problem)
    assert refused.status == 404
    await client.get_async_httpx_client().aclose()
