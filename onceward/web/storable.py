"""Refuse what cannot be stored before any route reads the request: NUL, lone surrogates, and numbers that JSON does not
have.

The path, the query string, our own cookies, and bodies that are JSON or forms are checked. This module decodes a
request only if the request contains bytes that could encode such text.
"""

from __future__ import annotations

import json
import math
import re
from typing import cast
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from onceward.db.text import NUL, find_unstorable
from onceward.web.problems import Problem, invalid_request

OWN_COOKIES = ("onceward_", "__Host-onceward_")
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
SUSPECT = (b"\\u0000", b"\\ud", b"\\uD", b"\x00", b"NaN", b"Infinity")
"""How JSON encodes such characters, and words that Python accepts as numbers. In UTF-16 every second byte may be a
NUL."""
PART_NAME = re.compile(rb'[; ]name="?([^";\r\n]*)')


def refuse_in_head(scope: Scope, headers: Headers) -> None:
    """Raise a problem that names the field if the path, the query string or one of our cookies contains a NUL."""
    if "\x00" in scope["path"]:
        raise _problem("path")
    query: bytes = scope["query_string"]
    if b"%00" in query:
        _refuse_pairs("query", query.decode("latin-1"))
    cookies = headers.get("cookie", "")
    if "%00" in cookies or "\\000" in cookies:
        for name, value in cookie_parser(cookies).items():
            # Other sites of the same domain may set any cookie; we read only our own.
            if name.startswith(OWN_COOKIES) and "\x00" in unquote(value):
                raise _problem(f"cookie.{name}")


def refuse_in_body(content_type: str, body: bytes) -> None:
    """Raise a problem that names the field if a form or JSON body contains such text. Other bodies are not checked."""
    if content_type.startswith(FORM):
        if b"%00" in body or b"\x00" in body:
            _refuse_pairs("body", body.decode("latin-1"))
    elif content_type.startswith(MULTIPART):
        if b"\x00" in body:
            _refuse_parts(content_type, body)
    elif any(each in body for each in SUSPECT):
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return  # the route reports invalid JSON
        unstorable = find_unstorable(value, "body")
        if unstorable is not None:
            raise _problem(unstorable.field, unstorable.reason)
        if (field := _find_no_number(value, "body")) is not None:
            raise _problem(field, "must be a number that JSON has, neither NaN nor infinite")


def _find_no_number(value: object, field: str) -> str | None:
    """Return the name of the first number that is NaN or infinite."""
    pending: list[tuple[object, str]] = [(value, field)]
    while pending:
        value, field = pending.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return field
        if isinstance(value, dict):
            pending += [(each, f"{field}.{name}") for name, each in cast(dict[str, object], value).items()]
        elif isinstance(value, list):
            pending += [(each, f"{field}.{index}") for index, each in enumerate(cast(list[object], value))]
    return None


def _refuse_pairs(where: str, text: str) -> None:
    for name, value in parse_qsl(text, keep_blank_values=True):
        if "\x00" in name or "\x00" in value:
            raise _problem(f"{where}.{name}")


def _refuse_parts(content_type: str, body: bytes) -> None:
    boundary = content_type.partition("boundary=")[2].partition(";")[0].strip('" ').encode("latin-1")
    for part in body.split(b"--" + boundary) if boundary else ():
        head, _, content = part.partition(b"\r\n\r\n")
        if b"\x00" in content and b"filename" not in head:  # files may contain any bytes
            name = PART_NAME.search(head)
            raise _problem(f"body.{name[1].decode('latin-1') if name else ''}")


def _problem(field: str, reason: str = NUL) -> Problem:
    return invalid_request([(field.replace("\x00", ""), reason)])
