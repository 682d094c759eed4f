"""PostgreSQL stores every text but those with a NUL or half a character. Find the values that it would refuse."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

NUL = "must not contain a NUL character"
HALF = "must be Unicode text, without half characters (surrogates)"


class Unstorable(NamedTuple):
    """Where a value cannot be stored, such as `items.3.name`, and why."""

    field: str
    reason: str


def objection(text: str) -> str | None:
    """Why PostgreSQL would refuse the text; None if it would not."""
    if "\x00" in text:
        return NUL
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return HALF
    return None


def find_unstorable(value: Any, path: str = "") -> Unstorable | None:
    """Look through a decoded JSON value. The text `\\\\u0000`, a backslash and five more characters, is not a NUL."""
    waiting: list[tuple[Any, str]] = [(value, path)]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, str):
            if (reason := objection(value)) is not None:
                return Unstorable(path, reason)
        elif isinstance(value, dict):
            for key, each in cast(dict[str, Any], value).items():
                if (reason := objection(key)) is not None:
                    return Unstorable(path, f"the name of a member {reason}")
                waiting.append((each, f"{path}.{key}" if path else key))
        elif isinstance(value, list):
            waiting += [(each, f"{path}.{index}") for index, each in enumerate(cast(list[Any], value))]
    return None
