"""Formats of values on a page: times, numbers, and JSON with hidden secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from markupsafe import Markup

from onceward import exact_json
from onceward.money import format_number

SECRET = re.compile(
    r"(^|[_\-.])(secret|secrets|password|passwd|authorization|cookie|api[_-]?key|private[_-]?key|token|cvc|cvv)s?$",
    re.I,
)
COVER = "••••••"
SHOWN_BYTES = 200_000


def number(value: float | None) -> str:
    """Format a number as 12,345, or None as a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def about(value: float | None) -> str:
    """Format an estimate: about 10.2 M."""
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"about {value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"about {value:,.0f}"


def many(count: int, noun: str) -> str:
    """Format a count with its noun: `1 endpoint`, `3 endpoints`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """Format a duration with a suitable unit."""
    if value is None:
        return "–"
    if value < 0:
        return "0 ms"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1000:.3g} ms" if value < 0.1 else f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.3g} s"
    if value < 3600:
        return _two(value, 60, "min", 1, "s")
    if value < 86400:
        return _two(value, 3600, "h", 60, "min")
    return _two(value, 86400, "d", 3600, "h")


def _two(value: float, large: int, unit: str, small: int, rest: str) -> str:
    """Format a duration in two units, or in one if the second would be zero."""
    left = int(value % large // small)
    return f"{int(value // large)} {unit}" + (f" {left} {rest}" if left else "")


def between(start: datetime | None, end: datetime | None) -> str:
    return "–" if start is None or end is None else seconds((end - start).total_seconds())


def size(value: float | None) -> str:
    """Format a number of bytes with a suitable unit."""
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return "–"


def money(minor: int | Decimal, currency: str) -> str:
    """Format an amount of minor units, with all decimal places of its currency."""
    return format_number(int(minor), currency)


def ago(moment: datetime | None) -> Markup:
    """Format a time relative to now, with the absolute time as a tooltip. The browser updates it."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    if moment.year > 9000:
        return Markup("<span>when woken</span>")
    passed = (datetime.now(UTC) - moment).total_seconds()
    words = (
        "now"
        if abs(passed) < 1
        else f"{seconds_short(abs(passed))} ago"
        if passed > 0
        else f"in {seconds_short(-passed)}"
    )
    iso = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(iso, clock(moment), words)


def seconds_short(value: float) -> str:
    for size_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= size_s:
            return f"{int(value // size_s)} {unit}"
    return f"{int(value)} s"


def clock(moment: datetime | None) -> str:
    """Format a time as 2026-03-01 09:15:02.123 UTC."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def covered(value: Any) -> Any:
    """Return the value with every member hidden whose name looks like a credential, at any depth."""
    if isinstance(value, Mapping):
        members = cast(Mapping[str, Any], value)
        return {
            name: COVER if SECRET.search(str(name)) and inner not in (None, "", False) else covered(inner)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [covered(each) for each in cast(list[Any], value)]
    return value


def pretty(value: Any) -> str:
    """Format JSON with indentation, hidden secrets and a maximum length."""
    if value is None:
        return ""
    text = exact_json.dumps(covered(value), indent=True, default=str)
    return text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + f"\n… {len(text) - SHOWN_BYTES:,} characters more"


def address(value: str | None) -> str:
    """Shorten an email address or phone number so that it is recognisable but not complete."""
    if not value:
        return "–"
    name, at, host = value.partition("@")
    if at:
        return f"{name[:1]}•••@{host}"
    digits = re.sub(r"[^\d+]", "", value)
    if len(digits) >= 7 and len(digits) >= len(value) - 4:
        return f"{digits[:3]}•••{digits[-2:]}"
    return value


def words(value: str | None) -> str:
    """Format an identifier: `dead_letter` becomes `dead letter`."""
    return (value or "–").replace("_", " ")


def state(value: str | None) -> Markup:
    """Format a state as a word with a shape and a colour."""
    name = value or "unknown"
    return Markup('<span class="state is-{}">{}</span>').format(name.replace("_", "-"), words(name))


FILTERS = {
    "about": about,
    "address": address,
    "ago": ago,
    "clock": clock,
    "money": money,
    "number": number,
    "pretty": pretty,
    "seconds": seconds,
    "size": size,
    "state": state,
    "words": words,
}
