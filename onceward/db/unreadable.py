"""Values of rows that Python cannot read: JSON nested too deeply, a value whose key is missing.

The worker claims many rows at once. One unreadable value must not fail the claim of the others, so it is replaced by an
`Unreadable`, and the work that needs it fails alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from onceward import exact_json


class Unreadable:
    """Stands for a value that could not be read."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"<unreadable: {type(self.error).__name__}>"


def read_json(text: str) -> Any:
    """Read JSON like `exact_json.loads`. Return an `Unreadable` instead of raising."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return exact_json.loads_leniently(text)
        except (ValueError, RecursionError) as error:
            return Unreadable(error)
