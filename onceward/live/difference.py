"""The difference between two results, for clients that have the first: a large result changes in few places.

A difference is a list of changes, each with a path of keys and indexes into the result:

    [path, value]       set the value
    [path, at, text]    overwrite a part of a string, from the character `at` on; the length stays
    [path]              delete the key

A client that does not have the first result gets the second one whole.
"""

from __future__ import annotations

from typing import Any, cast

import orjson

SMALLEST = 1024
"""Results with fewer characters are always sent whole."""
LARGEST = 1_000_000
"""Results with more characters are always sent whole: comparing them would block the event loop."""
BLOCK = 64
"""How many characters of two strings are compared at a time."""

Path = list[str | int]


def difference(before: str, after: str) -> str | None:
    """Return the changes from one result to the next, both JSON texts, as JSON. None: send the whole result."""
    if not (SMALLEST <= len(after) <= LARGEST and SMALLEST <= len(before) <= LARGEST):
        return None
    changes: list[list[Any]] = []
    _compare([], orjson.loads(before), orjson.loads(after), changes)
    text = orjson.dumps(changes).decode()
    return text if len(text) * 2 < len(after) else None


def apply(data: Any, changes: list[list[Any]]) -> Any:
    """Return a result with the changes applied. The given result stays as it is."""
    for path, *change in changes:
        data = _changed(data, path, change)
    return data


def _compare(path: Path, before: Any, after: Any, changes: list[list[Any]]) -> None:
    is_same_type = type(before) is type(after)
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_objects(path, cast(dict[str, Any], before), cast(dict[str, Any], after), changes)
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(cast(list[Any], before)) == len(cast(list[Any], after))
    ):
        for index, (old, new) in enumerate(zip(cast(list[Any], before), cast(list[Any], after), strict=True)):
            _compare([*path, index], old, new, changes)
    elif isinstance(before, str) and isinstance(after, str) and _is_alike(before, after):
        _compare_strings(path, before, after, changes)
    elif before != after or not is_same_type:
        changes.append([path, after])


def _compare_objects(path: Path, before: dict[str, Any], after: dict[str, Any], changes: list[list[Any]]) -> None:
    for key in before.keys() - after.keys():
        changes.append([[*path, key]])
    for key, value in after.items():
        if key in before:
            _compare([*path, key], before[key], value, changes)
        else:
            changes.append([[*path, key], value])


def _is_alike(before: str, after: str) -> bool:
    """Return whether positions in these strings mean the same in every language: a browser counts UTF-16 units."""
    return len(before) == len(after) and before.isascii() and after.isascii()


def _compare_strings(path: Path, before: str, after: str, changes: list[list[Any]]) -> None:
    if before == after:
        return
    if len(after) < BLOCK:
        changes.append([path, after])
        return
    for start in range(0, len(after), BLOCK):
        old, new = before[start : start + BLOCK], after[start : start + BLOCK]
        if old == new:
            continue
        different = [index for index, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        first, last = different[0], different[-1]
        changes.append([path, start + first, new[first : last + 1]])


def _changed(value: Any, path: Path, change: list[Any]) -> Any:
    if not path:
        if len(change) == 1:
            return change[0]
        at, text = change
        return value[:at] + text + value[at + len(text) :]
    key, *rest = path
    whole: Any = value
    copy: Any = list(whole) if isinstance(value, list) else dict(whole)
    if not rest and not change:
        del copy[key]
    elif not rest and len(change) == 1:
        copy[key] = change[0]
    else:
        copy[key] = _changed(whole[key], rest, change)
    return copy
