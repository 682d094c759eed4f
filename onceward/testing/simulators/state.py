"""Keep the state of a simulator in a JSON file, so that it survives a restart of the demo."""

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import orjson


def save(path: Path, owner: object, names: tuple[str, ...]) -> None:
    """Write the named attributes of an object. The file is replaced as a whole."""
    content = orjson.dumps({name: encode(getattr(owner, name)) for name in names})
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def load(path: Path, owner: object, names: tuple[str, ...]) -> None:
    """Set the named attributes from a file, if it exists. Attributes that the file does not have keep their values."""
    if not path.exists():
        return
    stored = cast("dict[str, Any]", orjson.loads(path.read_bytes()))
    for name in names:
        if name in stored:
            current = getattr(owner, name)
            if is_dataclass(current):
                _restore(current, cast("Mapping[str, Any]", stored[name]))
            else:
                setattr(owner, name, decode(stored[name]))


def encode(value: Any) -> Any:
    """Return a value as JSON. A set, a tuple and bytes become an object with one member that names the type."""
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        case tuple():
            return {"$tuple": [encode(item) for item in cast("tuple[Any, ...]", value)]}
        case set():
            return {"$set": sorted((encode(item) for item in cast("set[Any]", value)), key=str)}
        case list():
            return [encode(item) for item in cast("list[Any]", value)]
        case dict():
            return {str(key): encode(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _ if is_dataclass(value):
            return {each.name: encode(getattr(value, each.name)) for each in fields(value)}
        case _:
            return value


def decode(value: Any) -> Any:
    if isinstance(value, list):
        return [decode(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    if "$bytes" in members:
        return base64.b64decode(members["$bytes"])
    if "$tuple" in members:
        return tuple(decode(item) for item in members["$tuple"])
    if "$set" in members:
        return {decode(item) for item in members["$set"]}
    return {key: decode(item) for key, item in members.items()}


def _restore(target: Any, stored: Mapping[str, Any]) -> None:
    for each in fields(target):
        if each.name in stored:
            setattr(target, each.name, decode(stored[each.name]))
