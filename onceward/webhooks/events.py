"""Declare where the events of a request are: their id, type, subject and data.

Compiled once, then read for each request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, cast
from uuid import uuid4

from onceward.webhooks.paths import value_at, value_by_names
from onceward.webhooks.payload import (
    Document,
    as_text,
    body_key,
    derived_key,
    form_object,
    is_storable,
    item,
    key_per_type,
    read_form,
    read_json,
    read_object,
)
from onceward.webhooks.provider import ReceivedItem, Rejected, Request

FORM: Final = "application/x-www-form-urlencoded"
BodyFormat = Literal["object", "json", "any"]


@dataclass(frozen=True, slots=True)
class Header:
    """The value of a header."""

    name: str


@dataclass(frozen=True, slots=True)
class Derive:
    """A hash of the values at some paths, for senders that send no id. Empty if none of the values is there."""

    paths: tuple[str, ...]

    def __init__(self, *paths: str) -> None:
        object.__setattr__(self, "paths", paths)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An id of its own for each request, for senders whose notifications only say that something changed.

    Equal bodies are then different events, and a repeated delivery is an event too: a handler reads what is new
    with its cursor.
    """


@dataclass(frozen=True, slots=True)
class Join:
    """Some places joined by a text: `Join(Header("x-event"), "action")` is `issues.opened`.

    The first must be there; other parts that are empty are left out.
    """

    places: tuple[str | Header, ...]
    by: str = "."

    def __init__(self, *places: str | Header, by: str = ".") -> None:
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "by", by)


Read = Callable[[Request, Any], str]
OnePlace = str | Header | Derive | Join | Arrival | Read
Place = OnePlace | tuple[OnePlace, ...]
"""A path into the body, a header, or a function. A tuple means: the first one that is not empty."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """How the elements of an array are read: a header belongs to the whole request, a path to one element."""

    request_id: Read
    element_id: Read
    request_type: Read
    element_type: Read

    @staticmethod
    def of(id: Place, type: Place) -> _Batch:
        headers = [tuple(each for each in places_of(one) if isinstance(each, Header)) for one in (id, type)]
        others = [tuple(each for each in places_of(one) if not isinstance(each, Header)) for one in (id, type)]
        compiled = [_compile(place, strict=False) for place in (headers[0], others[0], headers[1], others[1])]
        return _Batch(*compiled)


@dataclass(frozen=True, kw_only=True)
class Events:
    """Where the events of a request are.

    `items` is the path of an array whose elements are separate events, or `.` if the body may be the array; the other
    paths are then relative to the element, and a function is called for each element. `body` says what is accepted:
    `object`, `json` (any JSON value), or `any` (JSON, or a form if the content type says so). `form_field` is the form
    field that contains the JSON, if the sender can also send forms. An event without an id is identified by a hash of
    its body. `strict` rejects a body without an id or a type instead, `strict_type` one without a type. `data` is the
    path of what a handler's model describes.
    """

    id: Place = "id"
    type: Place = "type"
    default_type: str = ""
    ordering: Place = ()
    items: str = ""
    data: str = ""
    body: BodyFormat = "object"
    form_field: str = ""
    id_per_type: bool = False
    strict: bool = False
    strict_type: bool = False
    _id: Read = dataclasses.field(init=False, repr=False, compare=False)
    _type: Read = dataclasses.field(init=False, repr=False, compare=False)
    _ordering: Read = dataclasses.field(init=False, repr=False, compare=False)
    _read_plain: Callable[[bytes], Document] | None = dataclasses.field(init=False, repr=False, compare=False)
    _batch: _Batch = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("id", "type", "ordering"):
            strict = (self.strict and name != "ordering") or (self.strict_type and name == "type")
            object.__setattr__(self, f"_{name}", _compile(getattr(self, name), strict=strict))
        object.__setattr__(self, "_batch", _Batch.of(self.id, self.type))
        plain = None if self.body == "any" or self.form_field else read_object if self.body == "object" else read_json
        object.__setattr__(self, "_read_plain", plain)

    def read(self, request: Request) -> list[ReceivedItem]:
        """Return the events of a verified request, in the order they were sent."""
        document = self._read_plain(request.body) if self._read_plain is not None else self.read_body(request)
        if self.items:
            parts = document.value if self.items == "." else value_at(document.value, self.items)
            if isinstance(parts, list):
                return self._read_items(request, document, cast("list[Any]", parts))
        value = document.value
        type = self._type(request, value) or self.default_type
        event_id = self._id(request, value) or body_key(request.body)
        if self.id_per_type:
            event_id = key_per_type(event_id, type)
        return [item(document, event_id=event_id, type=type, ordering=self._ordering(request, value))]

    def read_body(self, request: Request) -> Document:
        """Parse the body of a request. Raise Rejected if it is not in the declared format."""
        if self.body == "any" or self.form_field:
            is_form = request.headers.get("content-type", "").lower().startswith(FORM)
            if is_form and self.form_field:
                fields = dict(read_form(request.body))
                if self.form_field not in fields:
                    raise Rejected("bad_body", f"the form has no field {self.form_field}")
                read = read_object if self.body == "object" else read_json
                return read(fields[self.form_field].encode("utf-8", "surrogatepass"))
            if is_form:
                value = form_object(read_form(request.body))
                return Document(value, not is_storable(value))
        return read_object(request.body) if self.body == "object" else read_json(request.body)

    def data_of(self, payload: Any) -> Any:
        """Return the part of a stored payload that a handler's model describes, without the envelope."""
        if not self.data or not isinstance(payload, dict):
            return payload
        *parents, last = self.data.split(".")
        whole: Any = cast("dict[str, Any]", payload)
        holder = value_at(whole, ".".join(parents)) if parents else whole
        return cast("dict[str, Any]", holder).get(last, whole) if isinstance(holder, dict) else whole

    def sample_headers(self, event_id: str, type: str) -> dict[str, str]:
        """Return the headers with which a sample has this id and type.

        Of a joined type, the first header gets the first part.
        """
        headers: dict[str, str] = {}
        for place, text in ((self.id, event_id), (self.type, type)):
            for each in places_of(place):
                if isinstance(each, Header):
                    headers[each.name.lower()] = text
                elif isinstance(each, Join) and isinstance(each.places[0], Header):
                    headers[each.places[0].name.lower()] = text.partition(each.by)[0]
        return headers

    @property
    def header_names(self) -> tuple[str, ...]:
        """Return the headers that an event is read from, in lower case."""
        places = [each for place in (self.id, self.type, self.ordering) for each in places_of(place)]
        joined = [part for each in places if isinstance(each, Join) for part in each.places]
        return tuple(each.name.lower() for each in (*places, *joined) if isinstance(each, Header))

    @property
    def sample_id_path(self) -> str | None:
        """Return the path of the id in the body of a sample, or of the first part of a derived id that names an id.

        None if the id is not in the body.
        """
        path = next((each for each in places_of(self.id) if isinstance(each, str)), None)
        if path is None:
            derived = (part for each in places_of(self.id) if isinstance(each, Derive) for part in each.paths)
            path = next((part for part in derived if part.rpartition(".")[2].lower().endswith("id")), None)
        return None if path is None else self._sample_prefix + path

    def sample_type_paths(self, type: str) -> dict[str, str]:
        """Return the paths into the body with which a sample has this type."""
        paths: dict[str, str] = {}
        for each in places_of(self.type):
            match each:
                case str():
                    return {self._sample_prefix + each: type}
                case Join():
                    for part, value in zip(each.places, type.split(each.by, len(each.places) - 1), strict=False):
                        if isinstance(part, str):
                            paths[self._sample_prefix + part] = value
                case _:
                    pass
        return paths

    @property
    def _sample_prefix(self) -> str:
        return "" if not self.items else "0." if self.items == "." else f"{self.items}.0."

    def _read_items(self, request: Request, document: Document, parts: list[Any]) -> list[ReceivedItem]:
        batch = self._batch
        request_id, request_type = batch.request_id(request, None), batch.request_type(request, None)
        whole_type = batch.element_type(request, document.value)
        items: list[ReceivedItem] = []
        for n, part in enumerate(parts):
            type = request_type or batch.element_type(request, part) or whole_type or self.default_type
            # The request's id identifies the batch. An element's own id is the same in every batch.
            event_id = batch.element_id(request, part) or (f"{request_id}:{n}" if request_id else "")
            if event_id and self.id_per_type:
                event_id = key_per_type(event_id, type)
            one = document.part(part)
            ordering = self._ordering(request, part)
            items.append(item(one, event_id=event_id or derived_key((part,)), type=type, ordering=ordering))
        return items


def places_of(place: Place) -> Iterator[OnePlace]:
    """Return the places of which the first one that is not empty counts."""
    if isinstance(place, tuple):
        yield from place
    elif place:
        yield place


def _compile(place: Place, *, strict: bool) -> Read:
    """Return a function that reads a place. A strict one rejects a request without it."""
    places = list(places_of(place))
    if not places:
        return lambda request, value: ""
    if len(places) == 1:
        return _compile_one(places[0], strict=strict)
    readers = [_compile_one(each, strict=False) for each in places]

    def read_first(request: Request, value: Any) -> str:
        for reader in readers:
            if text := reader(request, value):
                return text
        return _reject(places[-1]) if strict else ""

    return read_first


def _compile_one(place: OnePlace, *, strict: bool) -> Read:
    match place:
        case str() if "." not in place:

            def field(request: Request, value: Any) -> str:
                found = cast("dict[str, Any]", value).get(place) if isinstance(value, dict) else None
                text = found if isinstance(found, str) else as_text(found)
                return text if text or not strict else _reject(place)

            return field
        case Header():
            header = place.name.lower()
            return lambda request, value: request.header(header) if strict else request.optional_header(header)
        case str():
            names = tuple(place.split("."))
            reader: Read = lambda request, value: as_text(value_by_names(value, names))  # noqa: E731
        case Derive():
            reader = _derive(place.paths)
        case Join():
            return _join(place, strict=strict)
        case Arrival():
            return lambda request, value: f"arrival_{uuid4().hex}"
        case _:
            reader = place
    return reader if not strict else lambda request, value: reader(request, value) or _reject(place)


def _derive(paths: tuple[str, ...]) -> Read:
    def derive(request: Request, value: Any) -> str:
        parts = [value_at(value, path) for path in paths]
        return derived_key(parts) if any(part is not None for part in parts) else ""

    return derive


def _join(place: Join, *, strict: bool) -> Read:
    first, others = _compile_one(place.places[0], strict=strict), place.places[1:]
    readers, by = [_compile_one(each, strict=False) for each in others], place.by

    def join(request: Request, value: Any) -> str:
        text = first(request, value)
        if not text:
            return ""
        for reader in readers:
            if more := reader(request, value):
                text = f"{text}{by}{more}"
        return text

    return join


def _reject(place: OnePlace) -> NoReturn:
    if isinstance(place, Header):
        raise Rejected("missing_header", f"header {place.name.lower()} is missing")
    raise Rejected("bad_body", f"the body has no {place if isinstance(place, str) else 'id or type'}")
