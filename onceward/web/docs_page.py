"""`/api/v1/docs`: the OpenAPI document as a page.

It has no script, because it is served on the origin of dashboard sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from onceward.web.exposure import ANYBODY, exposed
from onceward.web.openapi import operations

PATH = "/api/v1/docs"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>HTTP API - Onceward</title><link rel="stylesheet" href="/dashboard/static/now/style.css"></head>
<body><main><h1>HTTP API</h1>
<p>For programs: <a href="/api/v1/openapi.json">openapi.json</a>. Requests send an API key or a token:
<code>Authorization: Bearer ...</code></p>
"""


def install(api: FastAPI) -> None:
    """Add the page. The first request renders it."""
    rendered: list[str] = []

    @exposed(credential=ANYBODY)
    async def docs(_request: Request) -> Response:
        if not rendered:
            rendered.append("".join(render(api.openapi())))
        return HTMLResponse(rendered[0], headers=HEADERS)

    for route in api.routes:
        if isinstance(route, Route) and route.path == api.openapi_url:  # added by FastAPI itself
            exposed(credential=ANYBODY)(route.endpoint)
    api.add_api_route(PATH, docs, include_in_schema=False)


def render(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the page: every operation with its parameters, body and responses."""
    yield HEAD
    groups: dict[str, list[str]] = {}
    for method, path, operation in operations(dict(document)):
        group = (operation.get("tags") or ["other"])[0]
        groups.setdefault(group, []).append("".join(_operation(document, method, path, operation)))
    for group, parts in groups.items():
        yield f"<section><h2>{escape(group)}</h2>{''.join(parts)}</section>"
    yield "</main></body></html>"


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>"
    )
    if description := operation.get("description"):
        yield f"<p>{escape(description)}</p>"
    fields = [
        (
            each["name"],
            each["in"],
            each.get("required", False),
            _type(each.get("schema", {})),
            each.get("description", ""),
        )
        for each in operation.get("parameters", ())
    ]
    fields += list(_body(document, operation))
    if fields:
        yield "<table><thead><tr><th>field</th><th>in</th><th>required</th><th>type</th><th></th></tr></thead><tbody>"
        for name, where, required, kind, text in fields:
            cells = (f"<code>{escape(name)}</code>", where, "yes" if required else "", escape(kind), escape(text))
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</tbody></table>"
    answers = (f"{status}: {escape(each['description'])}" for status, each in operation["responses"].items())
    yield f"<p class='muted'>{'<br>'.join(answers)}</p></details>"


def _body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str, str]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(document, content.get("schema", {}))
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            yield name, "body", name in required, _type(field), field.get("description", "")


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    return cast("Mapping[str, Any]", document["components"]["schemas"].get(reference.rpartition("/")[2], {}))


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[several]))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind
