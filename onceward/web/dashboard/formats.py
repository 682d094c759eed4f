"""How values are written on a page: times, numbers, JSON with its secrets covered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from markupsafe import Markup

from onceward.providers import exact_json
from onceward.providers.outbound.money import format_number

SECRET = re.compile(
    r"(^|[_\-.])(secret|secrets|password|passwd|authorization|cookie|api[_-]?key|private[_-]?key|token|cvc|cvv)s?$",
    re.I,
)
COVER = "••••••"
SHOWN_BYTES = 200_000


def number(value: float | None) -> str:
    """12,345; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def about(value: float | None) -> str:
    """An estimate says that it is one: about 10.2 M."""
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"about {value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"about {value:,.0f}"


def many(count: int, noun: str) -> str:
    """A count with its noun: `1 endpoint`, `3 endpoints`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """A duration in the unit that suits it."""
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
    """In two units, or in one if nothing is left for the other."""
    left = int(value % large // small)
    return f"{int(value // large)} {unit}" + (f" {left} {rest}" if left else "")


def between(start: datetime | None, end: datetime | None) -> str:
    return "–" if start is None or end is None else seconds((end - start).total_seconds())


def size(value: float | None) -> str:
    """Bytes for people."""
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return "–"


def money(minor: int | Decimal, currency: str) -> str:
    """Minor units as people write the amount, always with all its digits."""
    return format_number(int(minor), currency)


def ago(moment: datetime | None) -> Markup:
    """How long since (or until), with the moment itself for whoever points at it; the browser keeps it current."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    if moment.year > 9000:
        return Markup("<span>when told</span>")
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
    """2026-03-01 09:15:02.123 UTC."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def covered(value: Any) -> Any:
    """The value with whatever is named like a credential covered, however deep."""
    if isinstance(value, Mapping):
        found = cast(Mapping[str, Any], value)
        return {
            name: COVER if SECRET.search(str(name)) and inner not in (None, "", False) else covered(inner)
            for name, inner in found.items()
        }
    if isinstance(value, list):
        return [covered(each) for each in cast(list[Any], value)]
    return value


def pretty(value: Any) -> str:
    """JSON to read: indented, secrets covered, cut where nobody reads on."""
    if value is None:
        return ""
    text = exact_json.dumps(covered(value), indent=True, default=str)
    return text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + f"\n… {len(text) - SHOWN_BYTES:,} characters more"


def address(value: str | None) -> str:
    """Of an address, enough to recognise it by."""
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
    """dead_letter as dead letter."""
    return (value or "–").replace("_", " ")


def state(value: str | None) -> Markup:
    """A state, told by word, shape and colour."""
    found = value or "unknown"
    return Markup('<span class="state is-{}">{}</span>').format(found.replace("_", "-"), words(found))


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
