"""What must hold after an upgrade. Each clause looks only at what was seen from the outside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.upgrade.load import Answer

KINDS = ("event", "job", "batch")


@dataclass(slots=True)
class Observation:
    """Everything that one run has seen."""

    answers: list[Answer] = field(default_factory=list[Answer])
    effects: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """Kind, number of the webhook, and release of the app that caused it."""
    calls: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Number of the webhook and key of each call to the outside service."""
    endings: list[str] = field(default_factory=list[str])
    unfinished: int = 0
    dead_letters: int = 0
    failed_commands: list[str] = field(default_factory=list[str])

    @property
    def acknowledged(self) -> set[int]:
        return {each.n for each in self.answers if each.status == 200}


def problems(seen: Observation) -> list[str]:
    """Return one sentence per violated clause."""
    clauses = (_answers, _effects, _calls, _both_releases, _work, _processes)
    return [problem for clause in clauses for problem in clause(seen)]


def _answers(seen: Observation) -> Iterator[str]:
    """Every answer is 200, or 503 with Retry-After."""
    wrong = Counter(
        each.status
        for each in seen.answers
        if each.status is not None and each.status != 200 and not (each.status == 503 and each.retry_after)
    )
    for status, count in wrong.items():
        yield f"{count} requests were answered with {status}" + (" without Retry-After" if status == 503 else "")
    if not seen.acknowledged:
        yield "no webhook was acknowledged"


def _effects(seen: Observation) -> Iterator[str]:
    """An acknowledged event has one effect of each kind, another one at most one."""
    counts = Counter((kind, n) for kind, n, _ in seen.effects)
    for kind in KINDS:
        lost = [n for n in seen.acknowledged if counts[kind, n] == 0]
        if lost:
            yield f"{len(lost)} acknowledged events have no effect {kind!r}, the first is {min(lost)}"
    doubled = [key for key, count in counts.items() if count > 1]
    if doubled:
        yield f"{len(doubled)} effects happened more than once, the first is {min(doubled)}"


def _calls(seen: Observation) -> Iterator[str]:
    """Every acknowledged event caused a call to the outside service, and all calls for one event carry one key."""
    keys: dict[int, set[str]] = defaultdict(set)
    for n, key in seen.calls:
        keys[n].add(key)
    missing = seen.acknowledged - keys.keys()
    if missing:
        yield f"{len(missing)} acknowledged events caused no call"
    several = [n for n, found in keys.items() if len(found) > 1]
    if several:
        yield f"{len(several)} events caused calls with different keys"


def _both_releases(seen: Observation) -> Iterator[str]:
    """Both releases did work, otherwise the run shows nothing."""
    for release in (1, 2):
        if release not in {each for _, _, each in seen.effects}:
            yield f"release {release} of the app caused no effect"


def _work(seen: Observation) -> Iterator[str]:
    if seen.unfinished:
        yield f"{seen.unfinished} pieces of work are unfinished"
    if seen.dead_letters:
        yield f"{seen.dead_letters} dead letters"


def _processes(seen: Observation) -> Iterator[str]:
    """Processes end only when they are asked to, and commands succeed."""
    yield from seen.endings
    yield from seen.failed_commands
