"""Parse bodies strictly, as JSON or forms, and mark values that the database cannot store."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl

import orjson

from onceward import exact_json
from onceward.webhooks.provider import ReceivedItem, Rejected

MAX_EVENT_ID_CHARS: Final = 255
MAX_TYPE_CHARS: Final = 200
MAX_FORM_FIELDS: Final = 1000
MAX_DEPTH: Final = 200
ENCODER_DEPTH: Final = 254
"""How many levels orjson encodes."""

Form = list[tuple[str, str]]

_NUMBER: Final = (int, float)
# Two expressions that begin with a letter: with a class of letters, the search would cost ten times as much.
_SMALL_EXPONENTS: Final = (re.compile(rb"e-\d{4}"), re.compile(rb"E-\d{4}"))
_BEFORE_NUMBER: Final = b":,[ \t\r\n"
_LONGEST_NUMBER: Final = 64
"""How far the start of a number is searched. A longer number counts as suspect."""
_LONG_FRACTION: Final = re.compile(rb"\.\d{12000}")


class Document(NamedTuple):
    """A body parsed as JSON. `unstorable` means that jsonb would refuse it. `text` is the JSON text of exactly this
    value.

    `suspect` means that every part must be checked before it is stored separately.
    """

    value: Any
    unstorable: bool
    text: bytes | None = None
    suspect: bool = False

    def part(self, value: Any) -> Document:
        """Return a part of this document. Only parts that contain an unstorable value are unstorable."""
        return Document(value, self.suspect and not is_storable(value))


def read_json(body: bytes) -> Document:
    """Parse a JSON body. Raise Rejected if no JSON parser would accept it."""
    suspect = b"\\u0000" in body
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        # orjson refuses lone surrogates and numbers that do not fit a double, but both are valid JSON.
        value, suspect = _read_lenient(body), True
    if len(body) > 2 * MAX_DEPTH and not _is_shallow(value):
        _check_depth(value)
    if _may_have_too_many_decimals(body):
        # A double rounds such a number to zero; jsonb keeps its digits, and refuses the number if there are too many.
        return Document(value, not is_storable(exact_json.loads_exactly(body)), body, True)
    return Document(value, suspect and not is_storable(value), body, suspect)


def _may_have_too_many_decimals(body: bytes) -> bool:
    """Return whether a number may have more digits after the point than jsonb can hold. Cheap for ordinary bodies."""
    for expression in _SMALL_EXPONENTS:
        for match in expression.finditer(body):
            # Most matches are parts of UUIDs and names. Before a number stands a comma, a bracket, a colon or a space.
            before = body[max(0, match.start() - _LONGEST_NUMBER) : match.start()].rstrip(b"0123456789.-")
            if not before or before[-1] in _BEFORE_NUMBER:
                return True
    return len(body) > 12_000 and _LONG_FRACTION.search(body) is not None


def read_object(body: bytes) -> Document:
    """Like `read_json`, but reject a value that is not an object."""
    document = read_json(body)
    if not isinstance(document.value, dict):
        raise Rejected("bad_body", "the body is JSON, but not an object")
    return document


def read_form(body: bytes | str) -> Form:
    """Return the fields of a form body or a query, in order, including empty ones."""
    try:
        text = body.decode("ascii") if isinstance(body, bytes) else body
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise Rejected("bad_body", "the form cannot be decoded as UTF-8 fields") from None


def form_object(fields: Form) -> dict[str, Any]:
    """Convert a form to an object. A repeated field becomes a list."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in values.items()}


def is_storable(value: Any) -> bool:
    """Return whether jsonb can store a value: no NUL or lone surrogate in any string or name, and no number out of
    range."""
    pending: list[Any] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            if "\0" in current or any("\ud800" <= char <= "\udfff" for char in current):
                return False
        elif isinstance(current, dict):
            pending.extend(cast("dict[Any, Any]", current).keys())
            pending.extend(cast("dict[Any, Any]", current).values())
        elif isinstance(current, list):
            pending.extend(cast("list[Any]", current))
        elif (isinstance(current, float) and not math.isfinite(current)) or (
            isinstance(current, Decimal) and not exact_json.is_holdable(current)
        ):
            return False
    return True


def item(
    document: Document,
    *,
    event_id: str,
    type: str,
    ordering: str = "",
) -> ReceivedItem:
    """Return the single event of a document, with an id and a type that are safe for text columns."""
    return ReceivedItem(
        event_key(event_id),
        event_type(type),
        None if document.unstorable else document.value,
        ordering or None,
        document.unstorable,
        document.text,
    )


def event_key(text: str) -> str:
    """Return the text if it fits an index and is printable, otherwise a hash of it."""
    if 0 < len(text) <= MAX_EVENT_ID_CHARS and text.isprintable():
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def event_type(text: str) -> str:
    """Return the text if it is a valid type name, otherwise `unknown`."""
    return text if 0 < len(text) <= MAX_TYPE_CHARS and text.isprintable() else "unknown"


def derived_key(parts: Iterable[Any]) -> str:
    """Return an event id for senders that send none. Equal parts give equal ids."""
    text = json.dumps(list(parts), sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def key_per_type(event_id: str, type: str) -> str:
    """Return an event id for senders whose ids are unique only per type."""
    return f"{event_id}:{type}"


def body_key(body: bytes) -> str:
    """Return an event id for a body without any id: its hash."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, otherwise an empty object: the structure of a body is never trusted."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, otherwise an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a string or number as text, otherwise an empty string."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, _NUMBER) and not isinstance(value, bool) else ""


def required_text(document: Document, name: str) -> str:
    """Return a field that every body of this provider has. Raise Rejected if it is missing."""
    text = as_text(as_object(document.value).get(name))
    if not text:
        raise Rejected("bad_body", f"the body has no {name}")
    return text


def from_iso(value: Any) -> datetime | None:
    """Parse an ISO 8601 time with a zone. Return None if it is not one."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _nested(levels: int) -> tuple[list[Any], list[Any]]:
    """Return a list that contains a list, and so on, and the innermost list."""
    innermost: list[Any] = []
    outermost = innermost
    for _ in range(levels - 1):
        outermost = [outermost]
    return outermost, innermost


_OUTERMOST, _INNERMOST = _nested(ENCODER_DEPTH - MAX_DEPTH)


def _is_shallow(value: Any) -> bool:
    """Return whether a value is certainly not too deep: the encoder, whose limit is larger than ours, accepts it inside
    the levels that make up the difference.

    This costs a tenth of `_check_depth`, which decides about all other values.
    """
    _INNERMOST[:] = (value,)
    try:
        orjson.dumps(_OUTERMOST)
    except TypeError:
        return False
    finally:
        _INNERMOST.clear()
    return True


def _check_depth(value: Any) -> None:
    # Split batches and replays encode values again, so the depth must stay below the encoder's limit.
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            for child in (cast("dict[str, Any]", parent).values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise Rejected("bad_body", f"the body is nested deeper than {MAX_DEPTH} levels")


def _read_lenient(body: bytes) -> Any:
    try:
        return exact_json.loads_leniently(body.decode())
    except UnicodeDecodeError:
        raise Rejected("bad_body", "the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Rejected("bad_body", "the body is not JSON") from None
