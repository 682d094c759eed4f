"""The inputs of a form: one for each field of a pydantic model."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Union, cast, get_args, get_origin
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from onceward.desk.errors import WrongDesk
from onceward.money import Money, exponent

Input = Literal[
    "text",
    "long",
    "number",
    "decimal",
    "money",
    "yes",
    "choice",
    "date",
    "time",
    "instant",
    "lines",
    "translations",
    "email",
    "file",
]
MOST_BYTES = 700_000
"""The largest file that a form takes. It travels with the form while people read what will happen."""


class Upload(BaseModel):
    """A field with a file: `cover: Upload | None = None`. The audit log gets its name and type, not its content."""

    name: str
    type: str
    content: bytes = Field(exclude=True)


@dataclass(frozen=True, slots=True)
class Translations:
    """Texts in several languages: `Annotated[dict[str, str], Translations("en", "pt")]`."""

    languages: tuple[str, ...]

    def __init__(self, *languages: str) -> None:
        object.__setattr__(self, "languages", languages)


@dataclass(frozen=True, slots=True)
class Options:
    """An annotation with the words of the choices: `Annotated[str, Options({"lent": "Lent"})]`."""

    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choices:
    """An annotation for a text that is chosen from rows, of which people see the word and the form sends the value:

    `Annotated[str, Choices("select id::text as value, name as word from library.shelves order by name")]`. `$1`, if
    the statement names it, is the id (text) of the row that the action is about, or null.
    """

    sql: str


@dataclass(frozen=True, slots=True)
class LongText:
    """An annotation for a text of several lines."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One input of a form, with what people have entered and what is wrong with it."""

    name: str
    title: str
    help: str
    input: Input
    required: bool
    options: tuple[tuple[str, str], ...] = ()
    choices: str = ""
    """The statement that returns the options, if they are rows."""
    value: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """The further inputs of the field: a currency, a time zone, a text for each language."""
    error: str = ""
    longest: int | None = None


def entries(model: type[BaseModel]) -> tuple[Entry, ...]:
    """Return the inputs of a model. Raises `WrongDesk` for a type that no input has."""
    return tuple(_entry(name, info) for name, info in model.model_fields.items())


def _entry(name: str, info: FieldInfo) -> Entry:
    annotation, optional = _without_none(info.annotation)
    kind, options = _input(name, annotation, info.metadata)
    longest = next((each.max_length for each in info.metadata if hasattr(each, "max_length")), None)
    required = info.is_required() and not optional and kind not in ("yes",)
    entry = Entry(
        name,
        info.title or name.replace("_", " ").capitalize(),
        info.description or "",
        kind,
        required,
        options,
        choices=next((each.sql for each in info.metadata if isinstance(each, Choices)), ""),
        longest=longest,
    )
    if info.is_required() or info.default is None:
        return entry
    return fill(entry, info.get_default(call_default_factory=True))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [each for each in get_args(annotation) if each is not type(None)]
        if len(inner) == 1:
            return inner[0], True
    return annotation, False


def _input(name: str, annotation: Any, metadata: Sequence[Any]) -> tuple[Input, tuple[tuple[str, str], ...]]:
    for each in metadata:
        if isinstance(each, Options):
            return "choice", tuple(each.words.items())
        if isinstance(each, Choices):
            return "choice", ()
        if isinstance(each, Translations):
            return "translations", tuple((language, language) for language in each.languages)
        if isinstance(each, LongText):
            return "long", ()
    origin = get_origin(annotation)
    if origin is Literal:
        return "choice", tuple((str(each), str(each).replace("_", " ").capitalize()) for each in get_args(annotation))
    if origin is list and get_args(annotation) == (str,):
        return "lines", ()
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return "choice", tuple((str(each.value), each.name.replace("_", " ").capitalize()) for each in annotation)
        known: dict[type, Input] = {
            bool: "yes", str: "text", int: "number", Decimal: "decimal", float: "decimal", Money: "money", date: "date",
            datetime: "instant", time: "time", Upload: "file",
        }  # fmt: skip
        if annotation in known:
            return known[annotation], ()
        if annotation.__name__ == "EmailStr":
            return "email", ()
    raise WrongDesk(
        f"field {name}: no input for {annotation}; use text, numbers, Money, dates, choices, list[str], "
        f"Translations or Upload"
    )


def fill(entry: Entry, value: Any, zone: str = "UTC") -> Entry:
    """Return the input with a value of the model. Instants are shown in `zone` unless the value has one of its own."""
    match entry.input:
        case "file":
            return entry
        case "yes":
            return replace(entry, value="yes" if value else "")
        case "money":
            money = cast(Money | None, value)
            if money is None:
                return entry
            major = Decimal(money.amount).scaleb(-exponent(money.currency))
            return replace(entry, value=str(major), values={"currency": money.currency})
        case "lines":
            return replace(entry, value="\n".join(value or ()))
        case "translations":
            return replace(entry, values=dict(value or {}))
        case "instant":
            at = cast(datetime | None, value)
            if at is None:
                return entry
            zone = at.tzinfo.key if isinstance(at.tzinfo, ZoneInfo) else zone
            local = at.astimezone(ZoneInfo(zone))
            values = {"zone": zone, "exact": at.isoformat()}
            return replace(entry, value=local.strftime("%Y-%m-%dT%H:%M"), values=values)
        case _:
            value = value.value if isinstance(value, Enum) else value
            return replace(entry, value="" if value is None else str(value))
