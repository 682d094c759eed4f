"""The pure arithmetic of the daily report. A rate whose denominator is zero is None, never a division error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from onceward.money import exponent


@dataclass(frozen=True, slots=True)
class DailyMetrics:
    """What was counted on one day, UTC. `revenue` is in minor units per currency: sums over currencies mean nothing."""

    new_enrollments: int = 0
    refunds: int = 0
    revenue: Mapping[str, int] = field(default_factory=dict[str, int])
    active_users: int = 0
    course_completions: int = 0
    nps_score: int | None = None
    visitors: int = 0
    active_enrollments: int = 0

    def named(self) -> dict[str, Any]:
        """Return the metrics under the names that the analytics services get. Money is in units, not in cents."""
        values = asdict(self)
        return {
            "newEnrollments": values["new_enrollments"],
            "refunds": values["refunds"],
            "revenue": in_units(self.revenue),
            "activeUsers": values["active_users"],
            "courseCompletions": values["course_completions"],
            "npsScore": values["nps_score"],
            "visitors": values["visitors"],
            "activeEnrollments": values["active_enrollments"],
        }


def in_units(amounts: Mapping[str, int]) -> dict[str, float]:
    """Return amounts in units of their currency: 1250 of EUR is 12.5, 1250 of JPY is 1250."""
    return {
        currency: float(Decimal(amount).scaleb(-exponent(currency))) for currency, amount in sorted(amounts.items())
    }


def ratio(part: float, whole: float) -> float | None:
    """Return `part / whole`, or None if `whole` is 0."""
    return None if whole == 0 else round(part / whole, 6)


def kpis(metrics: DailyMetrics) -> dict[str, Any]:
    """Return the five KPIs of a day."""
    units = in_units(metrics.revenue)
    per_user = {currency: ratio(amount, metrics.new_enrollments) for currency, amount in units.items()}
    return {
        "conversionRate": ratio(metrics.new_enrollments, metrics.visitors),
        "avgRevenuePerUser": per_user if metrics.new_enrollments else None,
        "churnRate": ratio(metrics.refunds, metrics.active_enrollments),
        "completionRate": ratio(metrics.course_completions, metrics.active_enrollments),
        "npsScore": metrics.nps_score,
    }
