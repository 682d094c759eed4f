"""Sample payloads of a sender: files with real payloads, whose ids and times are new in each payload that is made of
them.

`samples/<type>.json` in the folder of an integration is one payload as the sender sends it. What a file name cannot
contain is written as in a URL: `orders%2Fcreate.json`. In what `Sample.make` returns,

- the event id, and each word of 14 or more letters and digits that has both, is another one of the same form: the same
  word becomes the same new word everywhere in the payload;
- a time within 60 days of `REFERENCE_TIME` keeps its distance to now: write the samples as if they were sent at that
  moment.
"""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote
from uuid import uuid4

import orjson

REFERENCE_TIME: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The moment at which the samples were sent, as far as their times say."""
SHIFTED_WITHIN_S: Final = 60 * 86_400
HEX: Final = frozenset("0123456789abcdef")
SHORTEST_ID: Final = 14

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_VARIABLE: Final = re.compile(rf"(?P<uuid>{_UUID})|(?P<moment>{_MOMENT})|(?P<word>[A-Za-z0-9]+)")

Leaf = tuple[tuple[str | int, ...], Callable[["_Renewal"], Any]]


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


class Sample:
    """One payload, read once. `make` returns copies with new ids and current times."""

    def __init__(self, text: bytes, *, id_path: str | None = None) -> None:
        self._text = text
        payload = orjson.loads(text)
        at_id = None if id_path is None else tuple(id_path.split("."))
        self._leaves: list[Leaf] = list(_leaves(payload, (), at_id))

    def make(self) -> Any:
        """Return a payload with new ids and current times."""
        payload = orjson.loads(self._text)
        renewal = _Renewal(shift_s=time.time() - REFERENCE_TIME.timestamp())
        for (*parents, last), renew in self._leaves:
            holder = payload
            for name in parents:
                holder = holder[name]
            holder[last] = renew(renewal)
        return payload


class Samples(Mapping[str, Sample]):
    """The samples of a sender by type of event, in alphabetical order. A file is read when its sample is first
    needed."""

    def __init__(self, texts: Mapping[str, bytes | Path] | None = None, *, id_path: str | None = None) -> None:
        self._texts = {} if texts is None else dict(sorted(texts.items()))
        self._id_path = id_path
        self._read: dict[str, Sample] = {}

    @classmethod
    def of_folder(cls, folder: Path, *, id_path: str | None = None) -> Samples:
        """Return the samples of the files `<type>.json` in a folder, which need not exist."""
        return cls({unquote(each.stem): each for each in folder.glob("*.json")}, id_path=id_path)

    def __getitem__(self, type: str) -> Sample:
        made = self._read.get(type)
        if made is None:
            text = self._texts[type]
            try:
                made = Sample(text.read_bytes() if isinstance(text, Path) else text, id_path=self._id_path)
            except orjson.JSONDecodeError as error:
                raise ValueError(
                    f"the sample {text if isinstance(text, Path) else type} is not JSON: {error}"
                ) from None
            self._read[type] = made
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def nearest(self, type: str) -> str | None:
        """Return the type of the sample whose name begins most like this one. None if there are no samples."""
        return max(self, key=partial(_common_parts, type), default=None)


@dataclass(slots=True)
class _Renewal:
    """What one payload replaces: each word by one other word, each time by the time that is as far from now."""

    shift_s: float
    words: dict[str, str] = field(default_factory=dict[str, str])

    def word(self, word: str) -> str:
        new = self.words.get(word)
        if new is None:
            new = self.words[word] = _other_word(word)
        return new

    def number(self, value: float) -> float:
        unit_s = 0.001 if value > 1e11 else 1.0
        shifted = value + self.shift_s / unit_s
        return int(shifted) if isinstance(value, int) else round(shifted, 3)

    def moment(self, text: str) -> str:
        moved = datetime.fromisoformat(text) + timedelta(seconds=self.shift_s)
        _, point, fraction = text.partition(".")
        digits = re.match(r"\d*", fraction)
        precision = (
            "seconds" if not point or digits is None else "milliseconds" if len(digits[0]) == 3 else "microseconds"
        )
        written = moved.isoformat(timespec=precision)
        return written.replace("+00:00", "Z") if text.endswith("Z") else written


def _leaves(value: Any, path: tuple[str | int, ...], id_path: tuple[str, ...] | None) -> Iterator[Leaf]:
    """Return the places of a payload that change, each with a function that returns its new value."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _leaves(each, (*path, key), id_path)
    elif isinstance(value, list):
        for n, each in enumerate(cast("list[Any]", value)):
            yield from _leaves(each, (*path, n), id_path)
    elif isinstance(value, str):
        is_event_id = id_path is not None and tuple(str(name) for name in path) == id_path
        parts = list(_parts(value, shortest=6 if is_event_id else SHORTEST_ID))
        if is_event_id and len(parts) < 2:
            yield path, lambda renewal: renewal.words.setdefault(value, token("evt_"))
        elif len(parts) > 1:
            yield path, lambda renewal: "".join(p if isinstance(p, str) else p(renewal) for p in parts)
    elif isinstance(value, int) and not isinstance(value, bool) and tuple(str(name) for name in path) == id_path:
        yield path, lambda renewal: secrets.randbelow(10**15)
    elif isinstance(value, int | float) and not isinstance(value, bool) and _is_recent(value):
        yield path, lambda renewal: renewal.number(value)


def _parts(text: str, *, shortest: int) -> Iterable[str | Callable[[_Renewal], str]]:
    """Split a text into what stays and functions for what changes. A text without either is one part."""
    at = 0
    for match in _VARIABLE.finditer(text):
        renew = _renew(match, shortest)
        if renew is not None:
            yield text[at : match.start()]
            yield renew
            at = match.end()
    yield text[at:]


def _renew(match: re.Match[str], shortest: int) -> Callable[[_Renewal], str] | None:
    found = match[0]
    if match["moment"]:
        return (
            (lambda renewal: renewal.moment(found)) if _is_recent(datetime.fromisoformat(found).timestamp()) else None
        )
    if match["uuid"]:
        return lambda renewal: renewal.words.setdefault(found, str(uuid4()))
    if found.isdigit():
        return (lambda renewal: str(renewal.number(int(found)))) if _is_recent(int(found)) else None
    if len(found) < shortest or found.isalpha():
        return None
    return lambda renewal: renewal.word(found)


def _is_recent(value: float) -> bool:
    """Return whether a number is a Unix time, in seconds or milliseconds, near the reference."""
    reference = REFERENCE_TIME.timestamp()
    return any(abs(value / unit - reference) <= SHIFTED_WITHIN_S for unit in (1, 1000))


def _other_word(word: str) -> str:
    """Return another word of the same form: hexadecimal, or with letters and digits at the same places after two
    characters."""
    for prefix in (0, 2):
        if HEX.issuperset(word[prefix:]):
            return word[:prefix] + hex_token("", len(word) - prefix)
    return word[:2] + "".join(secrets.choice(_alphabet(each)) for each in word[2:])


def _alphabet(character: str) -> str:
    if character.isdigit():
        return string.digits
    return string.ascii_uppercase if character.isupper() else string.ascii_lowercase


def _common_parts(type: str, name: str) -> int:
    parts = zip(re.split(r"[._]", type), re.split(r"[._]", name), strict=False)
    return next((n for n, (one, other) in enumerate(parts) if one != other), len(re.split(r"[._]", name)))


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
