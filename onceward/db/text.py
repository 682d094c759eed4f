"""Check and clean text that PostgreSQL must store.

PostgreSQL stores neither the character NUL nor half of a surrogate pair, in text or in JSON. Text that nobody can
correct (the answer of a service, the message of an exception, a result) is cleaned before it is stored. Text that a
caller can correct (arguments, names) is refused with an error that names the field.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple, cast

import orjson

REPLACEMENT = "\ufffd"
NUL = "must not contain a NUL character"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# \u0000 is an escape only after an even number of backslashes; otherwise it is literal text of six characters.
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_INT64 = range(-(1 << 63), 1 << 64)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store `text`: it has no NUL and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def clean_text(text: str) -> str:
    """Replace characters that PostgreSQL cannot store with U+FFFD, the replacement character."""
    return _UNSTORABLE.sub(REPLACEMENT, text)


class Unstorable(NamedTuple):
    """The field whose value cannot be stored, such as `items.3.name`, and the reason."""

    field: str
    reason: str


def objection(text: str) -> str | None:
    """Return why PostgreSQL cannot store the text, or None."""
    if "\x00" in text:
        return NUL
    return None if is_storable(text) else "must be Unicode text, without half characters (surrogates)"


def find_unstorable(value: Any, path: str = "") -> Unstorable | None:
    """Return the first unstorable text in a decoded JSON value. The literal text `\\\\u0000` is not a NUL."""
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


def json_contains_nul(text: str) -> bool:
    """Return whether a string in this JSON document contains the character NUL. Literal text `\\u0000` is not one."""
    return "\\u0000" in text and _ESCAPED_NUL.search(text) is not None


def clean_json(value: Any) -> str:
    """Return `value` as JSON that PostgreSQL can store: strings are cleaned, integers keep all digits.

    NaN and infinity become null, because JSON has neither. Raises TypeError or ValueError if `value` is not JSON.
    """
    try:
        text = _dump(value)
    except TypeError:
        try:
            text = _dump(_cleaned(value))
        except RecursionError:
            raise ValueError("the value is nested too deeply, or contains itself") from None
    return _ESCAPED_NUL.sub(rf"\1{REPLACEMENT}", text) if "\\u0000" in text else text


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()


def _cleaned(value: Any) -> Any:
    """Convert values that JSON allows and orjson refuses: lone surrogates, and integers beyond 64 bits."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {clean_text(key) if isinstance(key, str) else key: _cleaned(each) for key, each in members.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in cast("list[Any]", value)]
    if isinstance(value, int) and value not in _INT64:
        return orjson.Fragment(str(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _cleaned(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
