"""Charts as SVG from the server, with the numbers as a table behind them. They need no script and no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from markupsafe import Markup

from onceward.desk.cells import day
from onceward.desk.errors import WrongDesk
from onceward.money import format_amount
from onceward.web.dashboard import formats

WIDTH, HEIGHT = 640, 100
LINE, LONGEST_LABEL = 42, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Numbers over days, or bars with labels.

    `sql` selects `at` (a day) or `label`, and `value`. `$1` is the first day of the period of a chart over days.
    The next argument, if the statement has it, is the organization (null for the whole instance), or on the page of a
    row its id (text).
    """

    name: str
    title: str
    sql: str
    kind: Literal["days", "bars"] = "days"
    days: int = 30
    currency: str = ""
    """The currency of values in minor units; empty: they are numbers."""
    empty: str = "Nothing yet."
    roles: tuple[str, ...] = ()
    """The roles of the desk that may see it, besides viewers, operators and owners of the organization."""

    def __post_init__(self) -> None:
        if not 2 <= self.days <= 370:
            raise WrongDesk(f"chart {self.name}: days must be between 2 and 370, not {self.days}")

    def shown(self, value: Decimal | float) -> str:
        return format_amount(int(value), self.currency, "en") if self.currency else formats.number(float(value))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its numbers: the picture and the table say the same."""

    chart: Chart
    points: Sequence[tuple[str, str]]
    picture: Markup
    total: str


async def draw(chart: Chart, conn: Any, of: UUID | str | None, *, today: date) -> Drawn:
    """Read the numbers of an organization or of a row and draw them. Days without a row are zero."""
    points: list[tuple[str, Decimal | float]]
    if chart.kind == "days":
        first = today - timedelta(days=chart.days - 1)
        own = [of] if "$2" in chart.sql else []
        found = {_day(row["at"]): row["value"] for row in await conn.fetch(chart.sql, first, *own)}
        all_days = [first + timedelta(days=number) for number in range(chart.days)]
        points = [(day(each), found.get(each, 0)) for each in all_days]
    else:
        own = [of] if "$1" in chart.sql else []
        points = [(str(row["label"]), row["value"]) for row in await conn.fetch(f"{chart.sql} limit 20", *own)]
    values = [float(value) for _, value in points]
    draw_points = _bars if chart.kind == "bars" else _days
    picture = Markup("") if not any(values) else draw_points(chart, [label for label, _ in points], values)
    return Drawn(chart, [(label, chart.shown(value)) for label, value in points], picture, chart.shown(sum(values)))


def _day(value: Any) -> date:
    return value.date() if isinstance(value, datetime) else value


def _days(chart: Chart, labels: Sequence[str], values: Sequence[float]) -> Markup:
    """Draw one bar for each day. The picture is stretched to the width of the page; its words are outside of it."""
    top = max(max(values), 0) or 1
    step = WIDTH / len(values)
    gap = min(4.0, step * 0.25)
    bars = [
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {}</title></rect>').format(
            number * step + gap / 2, HEIGHT - height, step - gap, height, label, chart.shown(value)
        )
        for number, (label, value) in enumerate(zip(labels, values, strict=True))
        if (height := max(1.0, max(value, 0) / top * HEIGHT) if value else 0)
    ]
    return Markup(
        '<div class="days-chart"><span class="top">{top}</span>'
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}: highest '
        '{top}">{}</svg>'
        "<span>{}</span><span>{}</span></div>"
    ).format(WIDTH, HEIGHT, chart.title, Markup("").join(bars), labels[0], labels[-1], top=chart.shown(top))


def _bars(chart: Chart, labels: Sequence[str], values: Sequence[float]) -> Markup:
    """Draw one line for each label: the text above, the bar below it, and the value at its end."""
    top = max(max(values), 0) or 1
    lines = [
        Markup(
            '<text x="0" y="{}">{}</text><rect x="0" y="{}" width="{:.1f}" height="12" rx="2"/>'
            '<text x="{:.1f}" y="{}">{}</text>'
        ).format(
            number * LINE + 13,
            label if len(label) <= LONGEST_LABEL else label[:LONGEST_LABEL] + "…",
            number * LINE + 19,
            width := max(2.0, max(value, 0) / top * (WIDTH - 120)),
            width + 8,
            number * LINE + 30,
            chart.shown(value),
        )
        for number, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    return Markup('<svg class="bars" viewBox="0 0 {} {}" role="img" aria-label="{}: highest {}">{}</svg>').format(
        WIDTH, len(values) * LINE, chart.title, chart.shown(top), Markup("").join(lines)
    )
