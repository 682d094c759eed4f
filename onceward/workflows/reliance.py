"""The recorded steps that a run relies on. Each record requires that they are still in the history.

A failover without synchronous replication loses the latest commits and may keep the lease of the run. A later record
that did not look at the earlier ones would leave a gap: a step that nobody runs again. Each record therefore names the
records that no later record has confirmed yet: usually one, after a `gather` several. A confirmed record cannot be lost
without the one that confirmed it, because the latter was committed after it.
"""

from __future__ import annotations

from dataclasses import dataclass

FINAL = ("done", "failed")


@dataclass(frozen=True, slots=True)
class Reliance:
    """Positions that must be recorded, and whether the step at each must be finished."""

    positions: tuple[int, ...]
    finished: tuple[bool, ...]

    @property
    def positions_text(self) -> str:
        return "{" + ",".join(map(str, self.positions)) + "}"

    @property
    def finished_text(self) -> str:
        return "{" + ",".join("t" if each else "f" for each in self.finished) + "}"


class UnconfirmedSteps:
    """The steps that this run has recorded and that no later record has confirmed."""

    def __init__(self) -> None:
        self._finished: dict[int, bool] = {}

    @property
    def reliance(self) -> Reliance:
        return Reliance(tuple(self._finished), tuple(self._finished.values()))

    def recorded(self, position: int, state: str, confirmed: Reliance) -> None:
        """Note a record that has been committed, and that it has confirmed others."""
        for each, finished in zip(confirmed.positions, confirmed.finished, strict=True):
            if self._finished.get(each) == finished:
                del self._finished[each]
        self._finished[position] = state in FINAL
