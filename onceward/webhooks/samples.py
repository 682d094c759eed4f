"""Helpers for realistic sample payloads: new ids each time, and any field can be set by its path."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson


def apply_fields(payload: Any, fields: Mapping[str, Any] | None) -> Any:
    """Overwrite `payload` in place at dotted paths (`data.object.amount`, `entry.0.id`) and return it."""
    for path, value in (fields or {}).items():
        _assign(payload, path, value)
    return payload


def parse_field(text: str) -> tuple[str, Any]:
    """Split `a.b=5` into a path and a value. The value is parsed as JSON if possible, otherwise it is the text."""
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise ValueError(f"{text!r} is not PATH=VALUE, as in data.object.amount=500")
    try:
        return path, orjson.loads(value)
    except orjson.JSONDecodeError:
        return path, value


def token(prefix: str, size: int = 24) -> str:
    """Return a new id as most services write it: a prefix, then letters and digits."""
    alphabet = string.ascii_letters + string.digits
    return prefix + "".join(secrets.choice(alphabet) for _ in range(size))


def hex_token(prefix: str, size: int = 32) -> str:
    """Return a new id: a prefix, then hexadecimal digits."""
    return prefix + secrets.token_hex((size + 1) // 2)[:size]


def unix_now() -> int:
    return int(time.time())


def iso_now(*, minutes: int = 0) -> str:
    """Return the current time plus some minutes, as most services write it."""
    moment = datetime.now(UTC) + timedelta(minutes=minutes)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _assign(payload: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    current = payload
    for done, name in enumerate(parents):
        where = ".".join(parents[: done + 1])
        if isinstance(current, list):
            current = cast("list[Any]", current)[_index(cast("list[Any]", current), name, where)]
            continue
        holder = cast("dict[str, Any]", current)
        if not isinstance(holder.get(name), dict | list):
            holder[name] = {}
        current = holder[name]
    if isinstance(current, list):
        cast("list[Any]", current)[_index(cast("list[Any]", current), last, path)] = value
    else:
        cast("dict[str, Any]", current)[last] = value


def _index(items: list[Any], name: str, where: str) -> int:
    if not name.isdigit() or int(name) >= len(items):
        raise ValueError(f"field {where}: the list has {len(items)} items, numbered from 0")
    return int(name)
