"""What the address of a listing asks for: filters, search, order, and the row after which its page begins."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from asyncpg import Record

from onceward.desk.columns import Column
from onceward.desk.listing import Listing
from onceward.desk.time_zones import time_zones
from onceward.web.dashboard import Missing

WORD = re.compile(r"[\w@.+-]+")
MOST_WORDS = 8
DAYS = {
    "today": (0, 1),
    "tomorrow": (1, 2),
    "week": (0, 7),
    "yesterday": (-1, 0),
    "next": (0, 36500),
    "past": (-36500, 0),
}
"""Periods relative to today that a filter knows: the first day, and the day after the last one."""
Add = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Order:
    """A column and a direction; without a column by id."""

    column: Column | None
    down: bool

    @property
    def text(self) -> str:
        name = "" if self.column is None else self.column.name
        return f"-{name}" if self.down and name else name


@dataclass(frozen=True, slots=True)
class Parent:
    """An object whose page shows the listing as a tab: the column with its id, and the type of the id."""

    by: str
    type: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page of a listing was asked for: conditions with their arguments, the order, and where it begins."""

    where: tuple[str, ...]
    arguments: tuple[Any, ...]
    order: Order
    after: tuple[str, str] | None = None
    problem: str = ""
    searches: bool = False
    """Whether it looks for words, whose index row-level security cannot use."""

    @property
    def is_narrowed(self) -> bool:
        return len(self.where) > 1


def ask(listing: Listing, params: Mapping[str, str], *, parents: Mapping[str, Parent] | None = None) -> Asked:
    """Read what an address asks for. What makes no sense is left out, and `problem` says what."""
    where, arguments, problems = [listing.where], list[Any](), list[str]()

    def add(condition: str, *values: Any) -> None:
        numbers = range(len(arguments) + 1, len(arguments) + 1 + len(values))
        where.append(condition.format(*(f"${number}" for number in numbers)))
        arguments.extend(values)

    for column in listing.filtered:
        problems += _filter(column, params, add)
    for name, parent in (parents or {}).items():
        if value := params.get(name, "").strip()[:200]:
            if is_id(parent.type, value):
                # The parameter is cast, not the column: an index on the column is used.
                add(f"{parent.by} = {{}}::text::{parent.type}", value)
            else:
                add("false")
    words = WORD.findall(params.get("q", ""))[:MOST_WORDS]
    searches = bool(words and listing.searched)
    if searches:
        add(f"{listing.words} @@ to_tsquery('simple', {{}})", " & ".join(_prefix(word) for word in words))
    return Asked(
        tuple(where), tuple(arguments), _order(listing, params), _cursor(params), "; ".join(problems), searches
    )


def is_id(type: str, text: str) -> bool:
    """Return whether a text has the form of an id of this type."""
    if type == "uuid":
        return re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is not None
    return text.isascii() and text.isdigit() and len(text) < 19 if type == "bigint" else 0 < len(text) <= 200


def _prefix(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "':*"


def _filter(column: Column, params: Mapping[str, str], add: Add) -> list[str]:
    if column.kind in ("time", "date"):
        return _filter_days(column, params, add)
    value = params.get(column.name, "").strip().replace("\x00", "")
    if not value:
        return []
    if column.kind == "yes":
        add(f"({column.expression}) = {{}}::boolean", value == "yes")
    elif column.words and value not in column.words:
        return [f"{column.title} has no value {value[:40]!r}"]
    else:
        add(f"({column.by or column.expression})::text = {{}}", value[:200])
    return []


def zone_of(params: Mapping[str, str]) -> str:
    """Return the time zone in which the days of an address are meant. The script of the page adds it."""
    zone = params.get("zone", "")
    return zone if zone in time_zones() else "UTC"


def _filter_days(column: Column, params: Mapping[str, str], add: Add) -> list[str]:
    zone, problems = zone_of(params), list[str]()
    today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date()

    def limit(sign: str, day: date) -> None:
        if column.kind == "date":
            add(f"({column.expression}) {sign} {{}}::date", day)
        else:
            add(f"({column.expression}) {sign} ({{}}::date)::timestamp at time zone {{}}::text", day, zone)

    if period := params.get(column.name, "").strip():
        if period in DAYS:
            first, after = DAYS[period]
            if period != "past":
                limit(">=", today + timedelta(days=first))
            if period != "next":
                limit("<", today + timedelta(days=after))
        else:
            problems.append(f"{column.title}: {period[:20]!r} is none of {', '.join(DAYS)}")
    for end, sign in (("from", ">="), ("to", "<")):
        if text := params.get(f"{column.name}_{end}", "").strip():
            try:
                day = date.fromisoformat(text)
                day += timedelta(days=1) if end == "to" else timedelta()
            except (ValueError, OverflowError):
                problems.append(f"{column.title}: {text[:20]!r} is not a day such as 2026-03-01")
            else:
                limit(sign, day)
    return problems


def _order(listing: Listing, params: Mapping[str, str]) -> Order:
    for text in (params.get("sort", ""), listing.order):
        name = text.removeprefix("-")
        column = next((each for each in listing.columns if each.sort and each.name == name), None)
        if column is not None:
            return Order(column, text.startswith("-"))
    return Order(None, True)


def _cursor(params: Mapping[str, str]) -> tuple[str, str] | None:
    text = params.get("after", "")
    if not text:
        return None
    try:
        value, row = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, TypeError):
        value = row = None
    if not isinstance(value, str) or not isinstance(row, str):
        raise Missing("this address names no page of the list: open the list from its beginning")
    return value, row


def cursor(row: Record) -> str:
    """Return the cursor of the page after this row."""
    return base64.urlsafe_b64encode(json.dumps([row["_sort"], row["_id"]]).encode()).decode().rstrip("=")
