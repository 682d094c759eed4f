"""Read values of a parsed body by dotted paths: `event.id`, `items.0.id`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from onceward.webhooks.payload import as_text


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path, or None if there is none. The structure of a body is never trusted."""
    return value_by_names(value, path.split("."))


def value_by_names(value: Any, names: Sequence[str]) -> Any:
    """Return the value at a path that is already split."""
    for name in names:
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(name)
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            value = items[int(name)] if name.isdecimal() and int(name) < len(items) else None
        else:
            return None
    return value


def text_at(value: Any, path: str) -> str:
    """Return the string or number at a path as text, or an empty text."""
    return as_text(value_at(value, path))
