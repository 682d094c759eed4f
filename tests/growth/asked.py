"""Every page, list, filter and search of a process: from its table of routes, its API document, its forms and its links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

LINK = re.compile(r'href="(/[^"]*)"')
FORM = re.compile(r"<form[^>]*method=\"?get.*?</form>", re.S)
INPUT = re.compile(r"<input[^>]*>")
SELECT = re.compile(r'<select[^>]*name="([^"]+)".*?</select>', re.S)
OPTION = re.compile(r'<option[^>]*value="([^"]+)"')
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
ONE = "00000000-0000-4000-8001-000000000001"
"""The id of the first row of each table, which belongs to the small organization."""
MOMENT = "2020-01-01T00:00:00Z"
TYPED = ("known1", "no such name")
"""What is typed into a field: something that many rows have, and something that none has."""


def parameters(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return values for each filter of a route of the API, one at a time."""
    for each in operation.get("parameters", ()):
        if each["in"] != "query" or each["name"] in ("limit", "before", "after", "cursor", "offset"):
            continue
        for value in _values(each["schema"]):
            yield each["name"], value


def _values(schema: dict[str, Any]) -> Iterator[str]:
    for each in schema.get("anyOf", [schema]):
        if each.get("type") == "array":
            yield from _values(each["items"])
        elif "enum" in each or "const" in each:
            yield from (str(value) for value in each.get("enum", [each.get("const")]))
        elif each.get("type") == "boolean":
            yield from ("true", "false")
        elif each.get("format") == "uuid":
            yield ONE
        elif each.get("format") == "date-time":
            yield MOMENT
        elif each.get("type") in ("integer", "number"):
            yield "1"
        elif each.get("type") == "string":
            yield from TYPED


def filters(page: str) -> Iterator[tuple[str, str]]:
    """Return the values of each field of the forms that filter a page, one at a time."""
    for form in FORM.findall(page):
        for select in SELECT.finditer(form):
            yield from ((select[1], unescape(value)) for value in OPTION.findall(select[0]))
        for field in INPUT.findall(form):
            attributes = dict(ATTRIBUTE.findall(field))
            name, kind = attributes.get("name"), attributes.get("type", "text")
            if name is None or kind in ("hidden", "submit"):
                continue
            if kind == "checkbox":
                yield name, attributes.get("value", "on")
            elif kind in ("datetime-local", "date"):
                yield name, MOMENT[:10] if kind == "date" else MOMENT[:16]
            else:
                yield from ((name, value) for value in TYPED)


def links(page: str) -> Iterator[str]:
    """Return the links of a page to this process."""
    for found in LINK.findall(page):
        yield unescape(found).partition("#")[0]


def with_filter(url: str, name: str, value: str) -> str:
    path, _, query = url.partition("?")
    return f"{path}?{urlencode([*parse_qsl(query), (name, value)])}"


class Routes:
    """Recognizes the route of a URL."""

    def __init__(self, paths: list[str]) -> None:
        ordered = sorted(paths, key=lambda path: "{" in path)
        self._known = [(path, re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path.replace(".", r"\.")))) for path in ordered]

    def kind(self, url: str) -> str | None:
        """Return the route with the names of the parameters, by which two questions are the same."""
        parts = urlsplit(url)
        route = next((path for path, pattern in self._known if pattern.fullmatch(parts.path)), None)
        if route is None:
            return None
        names = sorted({name for name, _ in parse_qsl(parts.query)})
        return f"{route}?{'&'.join(names)}" if names else route
