"""What a series of rehearsals says about each handler: how often the same, how often and in what way not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from onceward.rehearsal.comparison import Difference
from onceward.rehearsal.effects import Rehearsal

Class = Literal["same", "differs", "fails", "already done", "outside", "put off", "new"]
"""`new`: there is nothing to compare it with, because the work has not run, or its effects are not compared."""


@dataclass(slots=True)
class Group:
    """Equal differences or failures of one handler, with the first event that has it."""

    what: str
    count: int = 0
    example: int = 0
    detail: str = ""


@dataclass(slots=True)
class OfHandler:
    """The rehearsals of one handler."""

    task: str
    counts: dict[Class, int] = field(default_factory=dict[Class, int])
    groups: dict[str, Group] = field(default_factory=dict[str, Group])
    failures: dict[str, Group] = field(default_factory=dict[str, Group])
    duration_ms: float = 0.0
    compared_ms: float = 0.0
    timed: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def times_as_slow(self) -> float | None:
        """Return how many times as long the handler takes now, or None if that is not known."""
        return self.duration_ms / self.compared_ms if self.timed and self.compared_ms else None

    def as_json(self) -> dict[str, Any]:
        def listed(groups: dict[str, Group]) -> list[dict[str, Any]]:
            found = sorted(groups.values(), key=lambda each: -each.count)
            return [{"what": g.what, "count": g.count, "example": g.example, "detail": g.detail} for g in found]

        return {
            "task": self.task,
            "counts": {name.replace(" ", "_"): number for name, number in self.counts.items()},
            "differences": listed(self.groups),
            "failures": listed(self.failures),
            "times_as_slow": self.times_as_slow,
        }


class Summary:
    """Collects the rehearsals of a series by handler."""

    def __init__(self) -> None:
        self._handlers: dict[str, OfHandler] = {}
        self.rehearsed = 0

    def __iter__(self) -> Iterator[OfHandler]:
        return iter(sorted(self._handlers.values(), key=lambda each: each.task))

    @property
    def is_clean(self) -> bool:
        """Return whether nothing differs and nothing fails that did not fail before."""
        return not any(each.counts.get("differs", 0) + each.counts.get("fails", 0) for each in self)

    def add(self, shown: Rehearsal, found: list[Difference] | None, *, compared_ms: float | None = None) -> Class:
        """Add a rehearsal with its differences, or None if there was nothing to compare. Return its class."""
        of = self._handlers.setdefault(shown.task, OfHandler(shown.task))
        self.rehearsed += 1
        kind = _class_of(shown, found)
        of.counts[kind] = of.counts.get(kind, 0) + 1
        if compared_ms:
            of.duration_ms += shown.duration_ms
            of.compared_ms += compared_ms
            of.timed += 1
        if kind == "fails":
            what = (
                f"{shown.failure.type}{f' at {shown.failure.at}' if shown.failure.at else ''}" if shown.failure else ""
            )
            _count(of.failures, what, shown, shown.failure.message if shown.failure else "")
        elif kind == "differs":
            for what, detail in {each.what: each.detail for each in found or ()}.items():
                _count(of.groups, what, shown, detail)
        return kind


def _class_of(shown: Rehearsal, found: list[Difference] | None) -> Class:
    if shown.already_done is not None and not found:
        return "already done"
    if shown.state == "failed" and (found is None or found):
        return "fails"
    if found:
        return "differs"
    if found is not None:
        return "same"
    match shown.state:
        case "outside":
            return "outside"
        case "put_off":
            return "put off"
        case _:
            return "new"


def _count(groups: dict[str, Group], what: str, shown: Rehearsal, detail: str) -> None:
    group = groups.setdefault(what, Group(what, 0, shown.id, detail))
    group.count += 1
