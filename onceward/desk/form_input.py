"""Read a submitted form into its pydantic model, with errors beside the field."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from onceward.desk.fields import MOST_BYTES, Entry, Upload, entries
from onceward.desk.time_zones import time_zones
from onceward.money import Money, exponent


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
            value = _kept_instant(entry, given) or _value(entry)
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


def among(parsed: Parsed, options: Mapping[str, tuple[tuple[str, str], ...]]) -> Parsed:
    """Return the form with the options of its choices. A value that is none of them is an error."""
    if not options:
        return parsed
    form = tuple(replace(entry, options=options.get(entry.name, entry.options)) for entry in parsed.form)
    wrong = {
        entry.name for entry in form if entry.name in options and entry.value and entry.value not in dict(entry.options)
    }
    if not wrong:
        return Parsed(parsed.model, form)
    text = "This is not possible any more: choose another one."
    return Parsed(None, tuple(replace(each, error=text) if each.name in wrong else each for each in form))


def _sentence(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _kept_instant(entry: Entry, given: Mapping[str, str]) -> datetime | None:
    """Return the time with which the form was opened if the person left it: the input shows no seconds."""
    was, zone = f"was.{entry.name}", entry.values.get("zone", "UTC")
    if entry.input != "instant" or zone not in time_zones():
        return None
    is_left = (given.get(was), given.get(f"{was}.zone")) == (entry.value, zone)
    exact = given.get(f"{was}.exact", "") if is_left else entry.values.get("exact", "")
    try:
        at = datetime.fromisoformat(exact) if exact else None
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else at.astimezone(ZoneInfo(zone))


def _value(entry: Entry) -> Any:
    text = entry.value.strip()
    match entry.input:
        case "yes":
            return text == "yes"
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "translations":
            return {language: each.strip() for language, each in entry.values.items() if each.strip()}
        case "file":
            return _file(entry) if text else None
        case "money":
            return _money(text, entry.values.get("currency", "").strip().upper()) if text else None
        case "instant":
            return _instant(text, entry.values.get("zone", "UTC")) if text else None
        case _:
            return text.replace("\r\n", "\n") or None


def _money(text: str, currency: str) -> Money:
    plain = _decimal(text, exponent(currency))
    try:
        scaled = Decimal(plain).scaleb(exponent(currency))
    except (InvalidOperation, ValueError) as error:
        raise ValueError(f"{text[:40]!r} {currency[:10]!r} is not an amount such as 12.50 EUR.") from error
    if not scaled.is_finite():
        raise ValueError(f"{text[:40]!r} is not an amount such as 12.50 EUR.")
    if scaled != scaled.to_integral_value():
        raise ValueError(f"{currency} has {exponent(currency)} decimal places, and {text[:40]} has more.")
    return Money(int(scaled), currency)


def _decimal(text: str, places: int) -> str:
    """Return an amount with a point before its decimal places.

    A comma may separate thousands, or stand before the decimals.
    """
    text = text.replace("\u00a0", "").replace(" ", "")
    whole, comma, rest = text.rpartition(",")
    if not comma:
        return text
    if "." in rest:  # 1,234.50
        return text.replace(",", "")
    if "," not in whole and len(rest) != 3 and len(rest) <= places:  # 12,50 and 1.234,50
        return f"{whole.replace('.', '')}.{rest}"
    if places == 0 and len(rest) == 3:
        return text.replace(",", "")
    raise ValueError(f"{text[:40]!r} can be read in two ways: write it without separators, such as 1234.50.")


def _instant(text: str, zone: str) -> datetime:
    if zone not in time_zones():
        raise ValueError(f"{zone[:60]!r} is not a time zone such as Europe/Lisbon.")
    try:
        local = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-03-01T09:30.") from error
    if local.tzinfo is not None:
        raise ValueError(f"{text[:40]!r} has a time zone of its own: write it as 2026-03-01T09:30.")
    at = local.replace(tzinfo=ZoneInfo(zone))
    if at.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) != local:
        raise ValueError(f"{text[:40]} does not exist in {zone}: the clocks go forward then.")
    return at


def _file(entry: Entry) -> Upload:
    """Return a file. The form has its content in base64, so that it survives the page that says what will happen."""
    try:
        content = base64.b64decode(entry.value, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError("This is not a file: choose it again.") from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"The file has {len(content):,} bytes, and at most {MOST_BYTES:,} are possible.")
    return Upload(name=entry.values.get("name", "file")[:200], type=entry.values.get("type", ""), content=content)
