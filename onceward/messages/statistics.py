"""Reports about messages: sent, delivered, read, failed by reason, and what they cost, by organization, channel and
template.

A report reads the messages of its period, which a BRIN index finds, and is limited to `MOST_DAYS`. The cost is an
estimate: the number of sent messages times the price per channel in the settings.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from onceward.statements import read_statement, scoped

REPORT = scoped(read_statement("messages", "message_report"))
MOST_DAYS = 92
COUNTS = ("queued", "sent", "delivered", "read", "failed", "cancelled", "unknown")
COLUMNS = ("organization", "channel", "template", "reason", *COUNTS, "cost")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet computes a cell that begins so. A name or reason with such a beginning gets an apostrophe before it."""


class Reader(Protocol):
    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The messages of one organization, channel and template that ended for one reason, or without one."""

    organization: str
    channel: str
    template: str
    reason: str
    counts: Mapping[str, int]
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Period:
    """Days in UTC, the last one included."""

    first: date
    last: date

    @classmethod
    def parse(cls, first: str, last: str, *, today: date) -> Period:
        """Return the period of two dates such as 2026-11-01; default: the last seven days. Raises ValueError."""
        try:
            until = date.fromisoformat(last) if last else today
            since = date.fromisoformat(first) if first else until - timedelta(days=6)
        except ValueError:
            raise ValueError("write dates as 2026-11-01") from None
        if since > until:
            raise ValueError(f"the period begins on {since}, after its end on {until}")
        if (until - since).days >= MOST_DAYS:
            raise ValueError(f"a report covers at most {MOST_DAYS} days, not {(until - since).days + 1}")
        return cls(since, until)

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        start = datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC)
        end = datetime(self.last.year, self.last.month, self.last.day, tzinfo=UTC)
        return start, end + timedelta(days=1)


async def load_report(
    conn: Reader, period: Period, *, organization: UUID | None, prices: Mapping[str, str]
) -> list[ReportLine]:
    """Return the lines of the report. `prices` has the price of one message of a channel."""
    return [
        ReportLine(
            row["organization"] or "",
            row["channel"],
            row["template"],
            row["reason"] or "",
            {name: row[name] for name in COUNTS},
            Decimal(prices.get(row["channel"], 0)) * row["sent"],
        )
        for row in await conn.fetch(REPORT.of(organization), *period.bounds, organization)
    ]


def totals(lines: Iterable[ReportLine]) -> list[ReportLine]:
    """Add up the lines of each organization and channel."""
    found: dict[tuple[str, str], ReportLine] = {}
    for each in lines:
        key = each.organization, each.channel
        before = found.get(key)
        counts = {name: each.counts[name] + (before.counts[name] if before else 0) for name in COUNTS}
        cost = each.cost + (before.cost if before else 0)
        found[key] = ReportLine(each.organization, each.channel, "", "", counts, cost)
    return list(found.values())


def failures(lines: Iterable[ReportLine]) -> list[ReportLine]:
    """Return the lines that ended for a reason, the most frequent first."""
    return sorted((each for each in lines if each.reason), key=lambda each: -each.counts["queued"])


def csv_lines(lines: Sequence[ReportLine]) -> Iterator[str]:
    """Return the report as CSV, one line at a time. No cell is a formula."""
    yield _line(COLUMNS)
    for each in lines:
        cells: list[object] = [each.organization, each.channel, each.template, each.reason]
        yield _line([*map(neutral, cells), *(each.counts[name] for name in COUNTS), f"{each.cost:.4f}"])


def neutral(cell: object) -> str:
    """Return the text of a cell that no spreadsheet computes."""
    text = str(cell).replace("\x00", "")
    return f"'{text}" if text.startswith(FORMULA) else text


def _line(cells: Iterable[object]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerow(cells)
    return file.getvalue()
