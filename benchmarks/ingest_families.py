"""Measure `ack` for each family of signatures against the generic HMAC of the body."""

from __future__ import annotations

from benchmarks.families import ASYMMETRIC, BASELINE, OPTIONS, path_of
from benchmarks.ingest_rig import Sides
from benchmarks.measure import Measurement, Side, Size, compare

MOST_ASYMMETRIC_PER_S = 9_000
MOST_PER_S = 18_000


async def measure(sides: Sides, size: Size) -> list[Measurement]:
    """Put load on each source for half as long as other cases: there are nine."""
    for_s = sides.for_s / 2

    def rate(family: str) -> Side:
        most = MOST_ASYMMETRIC_PER_S if family in ASYMMETRIC else MOST_PER_S

        async def once() -> float:
            server = await sides.get("ours")
            answer = await server.load(for_s, path=path_of(family), family=family, prepared=int(for_s * most))
            return answer["rate"]

        return once

    return [
        await compare(
            "ingest",
            f"ack-{family}",
            rate(family),
            unit="requests/s",
            baseline="generic HMAC of the body",
            theirs=rate(BASELINE),
            turns=size.turns(quick=2),
        )
        for family in OPTIONS
        if family != BASELINE
    ]
