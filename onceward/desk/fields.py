"""Forms from pydantic models: one field for each field of the model, and errors beside the field."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Literal, Union, cast, get_args, get_origin
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, ValidationError
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
]


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
            datetime: "instant", time: "time",
        }  # fmt: skip
        if annotation in known:
            return known[annotation], ()
        if annotation.__name__ == "EmailStr":
            return "email", ()
    raise WrongDesk(
        f"field {name}: no input for {annotation}; use text, numbers, Money, dates, choices, list[str] or Translations"
    )


def fill(entry: Entry, value: Any) -> Entry:
    """Return the input with a value of the model."""
    match entry.input:
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
            zone = at.tzinfo.key if isinstance(at.tzinfo, ZoneInfo) else "UTC"
            local = at.astimezone(ZoneInfo(zone))
            return replace(entry, value=local.strftime("%Y-%m-%dT%H:%M"), values={"zone": zone})
        case _:
            value = value.value if isinstance(value, Enum) else value
            return replace(entry, value="" if value is None else str(value))


def entered(form: Sequence[Entry], given: Mapping[str, str]) -> tuple[Entry, ...]:
    """Return the inputs with what a person has entered."""
    filled: list[Entry] = []
    for entry in form:
        further = {key.rpartition(".")[2]: text for key, text in given.items() if key.startswith(f"{entry.name}.")}
        filled.append(replace(entry, value=given.get(entry.name, ""), values=further, error=""))
    return tuple(filled)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The model, or the inputs with their errors."""

    model: BaseModel | None
    form: tuple[Entry, ...]


def parse(model: type[BaseModel], given: Mapping[str, str]) -> Parsed:
    """Read a submitted form."""
    form = entered(entries(model), given)
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for entry in form:
        try:
            value = _value(entry)
        except ValueError as error:
            errors[entry.name] = str(error)
        else:
            if value is not None:
                values[entry.name] = value
            elif entry.required:
                errors[entry.name] = "Enter a value."
    if not errors:
        try:
            return Parsed(model.model_validate(values), form)
        except ValidationError as error:
            for each in error.errors():
                name = str(each["loc"][0]) if each["loc"] else form[0].name
                errors[name] = _sentence(each["msg"])
    return Parsed(None, tuple(replace(entry, error=errors.get(entry.name, "")) for entry in form))


def _sentence(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _value(entry: Entry) -> Any:
    text = entry.value.strip()
    match entry.input:
        case "yes":
            return text == "yes"
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "translations":
            return {language: each.strip() for language, each in entry.values.items() if each.strip()}
        case "money":
            return _money(text, entry.values.get("currency", "").strip().upper()) if text else None
        case "instant":
            return _instant(text, entry.values.get("zone", "UTC")) if text else None
        case _:
            return text.replace("\r\n", "\n") or None


def _money(text: str, currency: str) -> Money:
    try:
        scaled = Decimal(text.replace(",", "")).scaleb(exponent(currency))
    except (InvalidOperation, ValueError) as error:
        raise ValueError(f"{text[:40]!r} {currency[:10]!r} is not an amount such as 12.50 EUR.") from error
    if not scaled.is_finite() or scaled != scaled.to_integral_value():
        raise ValueError(f"{currency} has {exponent(currency)} decimal places, and {text[:40]} has more.")
    return Money(int(scaled), currency)


def _instant(text: str, zone: str) -> datetime:
    if zone not in available_timezones():
        raise ValueError(f"{zone[:60]!r} is not a time zone such as Europe/Lisbon.")
    try:
        local = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-03-01T09:30.") from error
    return local.replace(tzinfo=ZoneInfo(zone))


def version(model: BaseModel) -> str:
    """Return a short hash of the values that a form was filled with, to find out whether somebody else changed them."""
    return hashlib.sha256(model.model_dump_json().encode()).hexdigest()[:16]


def differences(form: Sequence[Entry], before: BaseModel, now: BaseModel) -> list[tuple[str, str, str]]:
    """Return what somebody else has changed: the title of the field, the value before and the value now."""
    changed: list[tuple[str, str, str]] = []
    for entry in form:
        old, new = getattr(before, entry.name), getattr(now, entry.name)
        if old != new:
            changed.append((entry.title, _text(entry, old), _text(entry, new)))
    return changed


def _text(entry: Entry, value: Any) -> str:
    filled = fill(entry, value)
    shown = " ".join((filled.value, *filled.values.values())).strip()
    return dict(entry.options).get(shown, shown) or "nothing"
