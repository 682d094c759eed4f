"""What must hold, in plain Python: every accepted item ends in one final state, in order, with its arguments, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

Kind = Literal["job", "event", "workflow", "delivery"]
ENDS = {"success", "cancelled", "discarded", "dead_letter", "failed"}


@dataclass(eq=False)
class Item:
    """Something that was accepted. `began` and `accepted` are moments of the model's own clock."""

    n: int
    kind: Kind
    task: str
    began: int
    accepted: int
    id: int | None = None
    """The id of its work; of an event it is found by the event id."""
    queue: str | None = None
    order: str | None = None
    """The key of the ordered lane."""
    cap: tuple[str, int] | None = None
    """The key and the limit of a lane with a limit."""
    transactional: bool = True
    fails_always: bool = False
    source: str | None = None
    unique: tuple[str, str] | None = None
    """The unique key and its form."""
    cancels: set[str] = field(default_factory=set[str])
    """The answers of `cancel`."""
    operated: bool = False
    """Cancelled, replayed or discarded: it may run out of order."""
    tokens: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """The verbs whose arguments it may run with, and when each began and was accepted: a replacement adds one."""
    then_of: list[Item] = field(default_factory=list["Item"])
    """The members of the bundle that it follows."""

    def __post_init__(self) -> None:
        self.tokens[self.n] = (self.began, self.accepted)

    @property
    def newest(self) -> set[int]:
        """The verbs that no other verb came after. Of verbs at the same time any may be the last."""
        return {n for n, (_, end) in self.tokens.items() if not any(began > end for began, _ in self.tokens.values())}


@dataclass(frozen=True)
class Seen:
    """What the database says about all items after everything has ended."""

    states: dict[int, list[str]]
    """The final outcomes of each piece of work, oldest first, also of those that were pruned."""
    events: dict[int, str]
    """The status of each event, by `n`."""
    reasons: dict[int, str | None]
    effects: list[tuple[int, int]]
    """(n, seq) of each effect, in order."""
    runs: list[tuple[int, int, float, float | None]]
    """(n, node, began, ended) of each run."""


class Model:
    """Remembers what was accepted and says what is wrong with what happened."""

    def __init__(self) -> None:
        self.clock = count()
        self.numbers = count(1)
        self.items: list[Item] = []
        self.refused: list[int] = []
        """The numbers of verbs that were answered as duplicates: nothing runs with their arguments."""
        self.kills = 0
        self.disturbed: set[int] = set()
        """Nodes that were frozen or killed: their runs may overlap with those of the node that took over."""

    def by_id(self, id: int) -> Item | None:
        return next((item for item in self.items if item.id == id), None)

    def problems(self, seen: Seen) -> list[str]:
        """Return a sentence for everything that must not be."""
        effects: dict[int, list[int]] = defaultdict(list)
        for n, seq in seen.effects:
            effects[n].append(seq)
        runs: dict[int, int] = defaultdict(int)
        for n, *_ in seen.runs:
            runs[n] += 1
        found = list(self._of_each(seen, effects, runs))
        found += [f"the refused duplicate {n} took effect" for n in self.refused if effects[n] or runs[n]]
        found += self._of_orders(effects)
        found += self._of_caps(seen)
        found += self._of_bundles(effects)
        return found

    def _of_each(self, seen: Seen, effects: dict[int, list[int]], runs: dict[int, int]) -> Iterator[str]:
        for item in self.items:
            happened = sum(len(effects[n]) for n in item.tokens)
            ran = sum(runs[n] for n in item.tokens)
            match item.kind:
                case "event":
                    state = seen.events.get(item.n)
                    ends = [state] if state is not None else []
                case "job" | "workflow" | "delivery":
                    ends = seen.states.get(item.id or 0, [])
            yield from self._of_end(item, ends, seen, happened, ran)

    def _of_end(self, item: Item, ends: Sequence[str], seen: Seen, happened: int, ran: int) -> Iterator[str]:
        name = f"{item.kind} {item.n} ({item.task}, id {item.id})"
        final = [end for end in ends if end != "dead_letter"]
        if not ends:
            yield f"{name} has no final state"
            return
        if len(final) > len(item.tokens):
            yield f"{name} ended {len(final)} times: {ends}"
        end = final[-1] if final else "dead_letter"
        if len(item.tokens) > 1:
            if end == "success" and item.transactional and not item.operated:
                yield from self._of_arguments(item, seen)
            return
        if end == "success":
            if item.transactional and happened != 1:
                yield f"{name} succeeded with {happened} effects"
            if ran < 1:
                yield f"{name} succeeded without a run"
            if item.fails_always:
                yield f"{name} fails always and succeeded"
        elif happened:
            yield f"{name} ended as {end} with {happened} effects"
        elif end == "failed" and not item.fails_always:
            yield f"{name} failed for good"
        elif end == "cancelled" and not item.cancels & {"cancelled", "asked"}:
            yield f"{name} was cancelled by nobody"
        elif end == "dead_letter" and not item.fails_always:
            reason = seen.reasons.get(item.id or 0)
            if not (reason == "worker_lost" and self.kills >= 3):
                yield f"{name} is a dead letter: {reason}"
        if "cancelled" in item.cancels and end != "cancelled":
            yield f"{name} was cancelled before it started and ended as {end}"

    def _of_arguments(self, item: Item, seen: Seen) -> Iterator[str]:
        """An attempt that runs keeps its arguments; the newest arguments are never lost, and none are used twice."""
        ran_with = [n for n, _seq in seen.effects if n in item.tokens]
        if not item.newest & set(ran_with) or len(ran_with) > len(set(ran_with)):
            yield f"job {item.n} was replaced by {list(item.tokens)} and ran with {ran_with}"

    def _of_orders(self, effects: dict[int, list[int]]) -> Iterator[str]:
        lanes: dict[str, list[Item]] = defaultdict(list)
        for item in self.items:
            if item.order is not None and not item.operated and effects[item.n]:
                lanes[item.order].append(item)
        for lane, items in lanes.items():
            for first in items:
                for second in items:
                    if first.accepted < second.began and effects[first.n][0] > effects[second.n][0]:
                        yield f"in lane {lane} item {second.n} ran before {first.n}"

    def _of_caps(self, seen: Seen) -> Iterator[str]:
        lanes: dict[tuple[str, int], set[int]] = defaultdict(set)
        for item in self.items:
            if item.cap is not None:
                lanes[item.cap].add(item.n)
        for (lane, most), members in lanes.items():
            moments: list[tuple[float, int]] = []
            for n, node, began, ended in seen.runs:
                if n in members and node not in self.disturbed and ended is not None:
                    moments += [(began, 1), (ended, -1)]
            at_once = 0
            for _moment, change in sorted(moments):
                at_once += change
                if at_once > most:
                    yield f"{at_once} of lane {lane} ran at once; its limit is {most}"
                    break

    def _of_bundles(self, effects: dict[int, list[int]]) -> Iterator[str]:
        for item in self.items:
            if not item.then_of or item.operated or not effects[item.n]:
                continue
            for member in item.then_of:
                if not member.operated and effects[member.n] and effects[member.n][0] > effects[item.n][0]:
                    yield f"job {item.n} ran before member {member.n} of its bundle"


def describe(problems: Sequence[str], rows: Sequence[Any]) -> str:
    """Return the problems and the rows of unfinished work, one per line."""
    return "\n".join([*problems, *(f"  {dict(row)}" for row in rows)])
