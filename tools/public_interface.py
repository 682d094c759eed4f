"""List the public interface, one line for each thing: what a release promises, so that the next one can be compared with it.

    python tools/public_interface.py                 # on an embedded PostgreSQL of its own

`tools/release.py record` writes the list to tests/packaging/released_interface.txt, `set` does so for each release. A test fails when a line
of it has gone or changed and the section Unreleased of CHANGELOG.md does not name the thing in backticks. New lines need nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import asyncpg
import typer.main
from pydantic import BaseModel, SecretStr

from onceward import Onceward
from onceward.cli.commands import build
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import all_settings, load_settings
from onceward.telemetry.metrics import declared
from onceward.testing import TestDatabases
from onceward.testing.databases import TestServer

ROOT = Path(__file__).parents[1]
SQL = """
select format('sql function %s returns %s', p.oid::regprocedure, pg_get_function_result(p.oid)) as line
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('onceward', 'webhook') and p.prokind = 'f'
   and (n.nspname = 'webhook' or has_function_privilege('onceward_producer', p.oid, 'execute'))
   and not has_function_privilege('public', p.oid, 'execute')
"""


def unexplained(released: Iterable[str], now: Iterable[str], changelog: str) -> list[str]:
    """Return the lines of a release that have gone or changed although the section Unreleased of the changelog does not name the thing."""
    section = changelog.partition("## Unreleased")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([^`]+)`", section))
    gone = set(released) - set(now)
    return sorted(line for line in gone if not any(word in named for word in names_of(line)))


def names_of(line: str) -> set[str]:
    """Return the forms in which a changelog may name a thing: whole, without its parameters, and its last part."""
    _, _, thing = line.partition(" ")
    plain = re.split(r"[({=]| -> | returns ", thing)[0].strip()
    return {thing, plain, plain.rpartition(".")[2], *re.findall(r"--[a-z-]+", thing), *re.findall(r"/\S+", plain)}


async def public_interface(url: str, app: Onceward, folder: Path) -> list[str]:
    """Return the lines, sorted. The database is migrated; a web process answers with its OpenAPI document."""
    lines = {*_python(), *_settings(), *_commands(), *_metrics(), *_sqlstates()}
    conn = await asyncpg.connect(url)
    try:
        lines |= {row["line"] for row in await conn.fetch(SQL)}
    finally:
        await conn.close()
    return sorted({*lines, *_http(await _openapi(url, app, folder))})


def _python() -> Iterator[str]:
    tables = _load(ROOT / "docs" / "tables.py")
    for group in tables.PUBLIC.values():
        for module in group:
            loaded = importlib.import_module(module)
            for name in tables.public_names(module):
                value = getattr(loaded, name)
                yield f"python {module}.{name}{_signature(value)}"
                if inspect.isclass(value) and not issubclass(value, BaseModel):
                    yield from _methods(f"{module}.{name}", value)


def _methods(path: str, kind: type) -> Iterator[str]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and (
            inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property)
        ):
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            yield f"python {path}.{name}{'' if isinstance(value, property) else _signature(inner)}"


def _signature(value: Any) -> str:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    names = (
        f"{'*' if each.kind is each.KEYWORD_ONLY else ''}{each.name}{'' if each.default is each.empty else '='}"
        for each in parameters
    )
    return f"({', '.join(name for name in names if name != 'self')})"


def _settings() -> Iterator[str]:
    for row in all_settings(FEATURES.settings):
        yield f"setting {row.name} = {row.default}"


def _commands() -> Iterator[str]:
    tables = _load(ROOT / "docs" / "tables.py")
    for path, command in tables._commands("onceward", typer.main.get_command(build(FEATURES))):
        yield f"command {path}"
        for each in command.params:
            if each.param_type_name == "option" and each.name != "help":
                yield f"command {path} {max(each.opts, key=len)}"


def _metrics() -> Iterator[str]:
    FEATURES.load("metrics")
    of_apps = tuple(f"{each.parent.name}_" for each in ROOT.glob("apps/onceward_apps/*/app.py"))
    for metric in declared():
        if metric.name.startswith(of_apps):
            continue  # they are there when another test has imported them
        yield f"metric {metric.name} {metric.kind} {{{', '.join(metric.labels)}}}"


def _sqlstates() -> Iterator[str]:
    for states in FEATURES.load("sqlstates"):
        for state in states:
            yield f"sqlstate {state.code}"


def _http(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            place = f"http {method.upper()} {path}"
            yield place
            for each in operation.get("parameters", ()):
                yield f"{place} {each['in']} {each['name']}{' required' if each.get('required') else ''}"
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        required = set(schema.get("required", ()))
        for field in schema.get("properties", {}):
            yield f"http schema {name}.{field}{' required' if field in required else ''}"


async def _openapi(url: str, app: Onceward, folder: Path) -> dict[str, Any]:
    settings = load_settings(
        FEATURES.settings, database_url=SecretStr(url), port=0, data_dir=folder, secret_key=SecretStr("k" * 40)
    )
    process = Process(app, settings, FEATURES)
    await process.start({"web"})
    try:
        assert process.web is not None
        async with aiohttp.ClientSession() as http, http.get(f"{process.web.url}/api/v1/openapi.json") as answer:
            return json.loads(await answer.text())
    finally:
        await process.stop()


def _load(path: Path) -> ModuleType:
    name = f"_{path.stem}_of_docs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        TestServer() as server,
        TestDatabases(server, FEATURES.migrations) as databases,
        redirect_stdout(sys.stderr),  # the log of the web process
    ):
        lines = asyncio.run(public_interface(databases.create(), Onceward("interface"), Path(folder)))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
