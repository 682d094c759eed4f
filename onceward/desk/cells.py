"""Values as people read them: on a page, and in an exported file."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from asyncpg import Record
from markupsafe import Markup, escape

from onceward.desk.columns import Column
from onceward.money import exponent, format_amount
from onceward.web.dashboard import formats

NOTHING = Markup('<span class="none">–</span>')
LONGEST = 300
"""Longer texts are cut in lists."""
LONG = 120
"""A longer text has the width of the page to itself where it is shown as a whole."""


def cell(column: Column, row: Record, *, whole: bool = False) -> Markup:
    """Return the value of a column as HTML. With `whole` a long text is not cut, and keeps its lines."""
    value = row[column.name]
    if value is None or value == "":
        return NOTHING
    if column.words:
        tone = column.tones.get(str(value), "quiet")
        return Markup('<span class="state tone-{}">{}</span>').format(tone, column.words.get(str(value), str(value)))
    match column.kind:
        case "time":
            return moment(value)
        case "date":
            return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), day(value))
        case "money":
            return escape(format_amount(int(value), row[f"_currency_{column.name}"], "en"))
        case "yes":
            return escape("Yes" if value else "No")
        case "number":
            return escape(formats.number(value))
        case "seconds":
            return escape(formats.seconds(float(value)))
        case "text":
            text = str(value)
            if whole and (len(text) > LONG or "\n" in text):
                return Markup('<span class="long-text">{}</span>').format(text)
            return escape(text if whole or len(text) <= LONGEST else text[:LONGEST] + "…")


def moment(value: datetime) -> Markup:
    """Return an instant. The script of the page shows it in the time zone of the viewer."""
    at = value.astimezone(UTC)
    iso = at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" data-local>{} UTC</time>').format(iso, f"{day(at)}, {at:%H:%M}")


def day(value: date) -> str:
    return f"{value.day} {value:%b} {value.year}"


def plain(column: Column, row: Record) -> str | int | float | Decimal | datetime | date | None:
    """Return the value for a file: words instead of codes, amounts in major units, times in UTC."""
    value = row[column.name]
    if value is None:
        return None
    if column.words:
        return column.words.get(str(value), str(value))
    match column.kind:
        case "money":
            return Decimal(int(value)).scaleb(-exponent(row[f"_currency_{column.name}"]))
        case "time":
            return value.astimezone(UTC).replace(tzinfo=None, microsecond=0)
        case "yes":
            return "yes" if value else "no"
        case "date" | "number" | "seconds":
            return value
        case "text":
            return str(value)


def headings(columns: tuple[Column, ...]) -> list[str]:
    """Return the first line of a file. An amount has its currency in a column of its own."""
    names: list[str] = []
    for column in columns:
        names.append(f"{column.title} (UTC)" if column.kind == "time" else column.title)
        if column.kind == "money":
            names.append(f"{column.title}, currency")
    return names


def line(columns: tuple[Column, ...], row: Record) -> list[Any]:
    """Return the values of one line of a file."""
    values: list[Any] = []
    for column in columns:
        values.append(plain(column, row))
        if column.kind == "money":
            values.append(row[f"_currency_{column.name}"])
    return values
