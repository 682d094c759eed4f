"""What of a person's data a rehearsal shows: enough to recognise an address, not enough to use it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

LONGEST_VALUE = 120
PRIVATE = re.compile(
    r"email|mail|phone|address|token|secret|passw|signature|private|hash|salt|ip$|^raw$|headers|birth|name$",
    re.IGNORECASE,
)
"""Columns whose values are not shown."""
HIDDEN = "(hidden)"


def masked(recipient: str) -> str:
    """Return an address with its first letter and its domain, or a telephone number with its last two digits."""
    local, at, domain = recipient.partition("@")
    if at:
        return f"{local[:1]}***@{domain}"
    if re.fullmatch(r"\+?[\d ()/-]{7,}", recipient):
        return f"***{recipient[-2:]}"
    return recipient


def shown(column: str, value: Any) -> str:
    """Return a value as one short line, without what may be private or secret."""
    if value is None:
        return "null"
    if PRIVATE.search(column) and not column.endswith("_id"):
        return HIDDEN
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        text = "{" + ", ".join(f"{name}: {shown(name, one)}" for name, one in items) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(shown(column, one) for one in cast("list[Any]", value)) + "]"
    else:
        text = " ".join(str(value).split())
        if text.startswith("\\x"):
            text = f"({len(text) // 2 - 1} bytes)"
        elif "@" in text and " " not in text:
            text = masked(text)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
