"""Clients that others generate from the OpenAPI document compile, and call every GET of the engine and of the apps."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from onceward.db import Database
from onceward.process.process import Process
from onceward.web.openapi import operations
from onceward_apps.all import app
from tests.npm import NEEDS_NPM, installed_modules
from tests.web.operating import client_for, started

TYPESCRIPT = Path(__file__).parent / "typescript"
NOBODY = UUID(int=1)
DAY = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({
  baseUrl: process.env.URL, headers: { Authorization: `Bearer ${process.env.KEY}` }, redirect: "manual",
});
const seen: Record<string, number> = {};
"""


@dataclass(frozen=True)
class Shop:
    """A running server with all apps, its document, and the key of an owner."""

    url: str
    document: dict[str, Any]
    key: str

    def gets(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for method, path, operation in operations(self.document):
            if method == "get":
                yield path, operation


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"}, app=app)
    yield process
    await process.stop()


@pytest.fixture
async def shop(db: Database, process: Process) -> Shop:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        owner = await client_for(db, session, "ours", "owner")
        async with session.get("/api/v1/openapi.json") as response:
            return Shop(process.web.url, await response.json(), owner.key)


async def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=environment or None, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, errors = await process.communicate()
    assert process.returncode == 0, f"{command}: {printed.decode()}{errors.decode()}"
    return printed.decode()


def example(schema: dict[str, Any]) -> Any:
    """Return a value that fits the schema of a parameter."""
    for each in (schema, *schema.get("anyOf", ())):
        if "enum" in each:
            return each["enum"][0]
        match each.get("type"), each.get("format"):
            case "integer" | "number", _:
                return max(7, each.get("minimum", 7))
            case "array", _:
                return []
            case "boolean", _:
                return True
            case "string", "uuid":
                return str(NOBODY)
            case "string", "date-time":
                return DAY.isoformat()
            case "string", "date":
                return DAY.date().isoformat()
    return "x" * max(3, schema.get("minLength", 3))


def python_example(kind: Any) -> Any:
    """Return a value of the type of a required argument of the Python client."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    values = {
        "int": 7,
        "float": 7.0,
        "UUID": NOBODY,
        "bool": True,
        "datetime.datetime": DAY,
        "datetime.date": DAY.date(),
    }
    return next((value for name, value in values.items() if name in str(kind)), "xxx")


def calls(shop: Shop) -> str:
    """Return a program that calls every GET and prints the statuses."""
    lines = [HEAD]
    for path, operation in shop.gets():
        params: dict[str, dict[str, Any]] = {}
        for each in operation.get("parameters", ()):
            if each.get("required"):
                params.setdefault(each["in"], {})[each["name"]] = example(each["schema"])
        is_json = "application/json" in operation["responses"].get("200", {}).get("content", {})
        options = {"params": params, **({} if is_json else {"parseAs": "text"})}
        lines.append(
            f"{{ const {{ response, data, error }} = await client.GET({json.dumps(path)}, {json.dumps(options)});\n"
            f"  if (response.ok && data === undefined && response.status !== 204) throw new Error({json.dumps(path)});\n"
            f"  if (!response.ok && response.status >= 400 && !error) throw new Error({json.dumps(path)});\n"
            f"  seen[{json.dumps(path)}] = response.status; }}"
        )
    return "\n".join([*lines, "console.log(JSON.stringify(seen));\nexport {};"])


def check(shop: Shop, seen: dict[str, int]) -> None:
    """Every GET was called, and answered with a status that it documents; most with what was asked for."""
    assert set(seen) == {path for path, _ in shop.gets()}
    assert len(seen) > 100
    for path, operation in shop.gets():
        assert seen[path] < 500, path
        if path.startswith("/api/"):
            assert str(seen[path]) in operation["responses"], (path, seen[path])
            assert seen[path] != 422, path
    assert sum(status == 200 for status in seen.values()) > 50, seen


@NEEDS_NPM
async def test_a_typescript_client_is_generated_compiled_and_calls_every_get(shop: Shop, tmp_path: Path) -> None:
    modules = installed_modules(TYPESCRIPT)
    (tmp_path / "node_modules").symlink_to(modules)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    (tmp_path / "openapi.json").write_text(json.dumps(shop.document))
    (tmp_path / "calls.ts").write_text(calls(shop))
    await run(modules / ".bin" / "openapi-typescript", "openapi.json", "-o", "schema.d.ts", cwd=tmp_path)
    assert await run(modules / ".bin" / "tsc", "-p", ".", cwd=tmp_path) == ""
    node = shutil.which("node")
    assert node is not None
    check(shop, json.loads(await run(node, "made/calls.js", cwd=tmp_path, URL=shop.url, KEY=shop.key)))


async def test_a_python_client_is_generated_and_calls_every_get(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(shop.document))
    (tmp_path / "config.yml").write_text(
        "project_name_override: client\npackage_name_override: every_get_client\npost_hooks: []\n"
    )
    generate = ("generate", "--path", "openapi.json", "--output-path", "made", "--config", "config.yml")
    printed = await run(sys.executable, "-m", "openapi_python_client", *generate, cwd=tmp_path)
    assert "WARNING" not in printed.upper(), printed
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    client = importlib.import_module("every_get_client").AuthenticatedClient(base_url=shop.url, token=shop.key)
    seen: dict[str, int] = {}
    modules = {path.stem: path for path in (tmp_path / "made" / "every_get_client" / "api").rglob("*.py")}
    for path, operation in shop.gets():
        file = modules[re.sub(r"_+", "_", re.sub(r"\W", "_", operation["operationId"]))]
        module = importlib.import_module(f"every_get_client.api.{file.parent.name}.{file.stem}")
        given = {
            name: python_example(each.annotation)
            for name, each in inspect.signature(module.asyncio_detailed).parameters.items()
            if each.default is each.empty and name != "client"
        }
        response = await module.asyncio_detailed(client=client, **given)
        seen[path] = int(response.status_code)
    await client.get_async_httpx_client().aclose()
    check(shop, seen)
