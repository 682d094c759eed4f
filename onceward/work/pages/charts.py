"""Charts as SVG paths, computed on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, TOP = 300, 64, 6


@dataclass(frozen=True, slots=True)
class Chart:
    """`line` and `area` are paths in a box of WIDTH x HEIGHT. `most` is the value at the top of the box."""

    line: str
    area: str
    most: int


def chart(values: Sequence[int]) -> Chart:
    """Return a chart of values per second, averaged over three seconds to hide random peaks."""
    smooth = [sum(values[max(0, at - 2) : at + 1]) / min(3, at + 1) for at in range(len(values))]
    most = max(1, -(-max(smooth, default=0) // 1))
    step = WIDTH / max(1, len(smooth) - 1)
    points = [f"{at * step:.1f},{HEIGHT - value / most * (HEIGHT - TOP):.1f}" for at, value in enumerate(smooth)]
    line = "M" + " L".join(points) if points else ""
    return Chart(line, f"{line} L{WIDTH},{HEIGHT} L0,{HEIGHT} Z" if points else "", int(most))


def now_per_s(values: Sequence[int]) -> float:
    """Return the mean rate over the last five seconds."""
    recent = values[-5:]
    return sum(recent) / len(recent) if recent else 0.0
