"""Print what a run has measured: counts, and how long webhooks were not acknowledged around each fault of the servers."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tools.chaos.faults import SERVER_FAULTS, SINGLE_SERVER_FAULTS
from tools.chaos.history import History
from tools.chaos.injector import Injected
from tools.chaos.run import Outcome


def longest_gap_s(history: History, fault: Injected, *, until_s: float) -> float:
    """Return the longest time without an acknowledged webhook between the start of a fault and `until_s`."""
    times = sorted(each.ended_s for each in history.requests if each.status == 200)
    before = [each for each in times if each <= fault.began_s][-1:]
    during = [each for each in times if fault.began_s < each <= until_s]
    stretch = [*before, *during]
    return max((later - earlier for earlier, later in pairwise(stretch)), default=0.0)


def unavailability_s(outcome: Outcome) -> dict[str, list[float]]:
    """Return for each kind of server fault the longest gap of each occurrence, in seconds."""
    faults = [each for each in outcome.injected if each.kind in (*SERVER_FAULTS, *SINGLE_SERVER_FAULTS)]
    gaps: dict[str, list[float]] = defaultdict(list)
    for index, fault in enumerate(faults):
        until_s = faults[index + 1].began_s if index + 1 < len(faults) else float("inf")
        gaps[fault.kind].append(longest_gap_s(outcome.history, fault, until_s=until_s))
    return dict(gaps)


def print_report(outcome: Outcome, *, took_s: float) -> None:
    history = outcome.history
    statuses = Counter(str(each.status) for each in history.requests)
    print(f"\n{took_s:.0f} s; {len(outcome.injected)} faults: {dict(Counter(each.kind for each in outcome.injected))}")
    print(f"starts of nodes after the first one: {outcome.restarts} (by the schedule of faults only)")
    print(
        f"requests {len(history.requests)}, answers {dict(statuses)}; events acknowledged {len(history.acknowledged)}"
    )
    print(
        f"effects {len(history.effects)}, outside calls {len(history.calls)}, deliveries {len(history.deliveries)}, "
        f"mails {len(history.mails)}"
    )
    unknown = sum(message.status == "unknown" for message in history.messages)
    print(f"messages of unknown outcome {unknown}; drained {outcome.drained_after_s:.1f} s after the load ended")
    for kind, gaps in unavailability_s(outcome).items():
        print(f"longest time without an acknowledgement at {kind}: {', '.join(f'{gap:.1f} s' for gap in gaps)}")
    for problem in outcome.problems:
        print(f"VIOLATED {problem}")
    if not outcome.problems:
        print("every clause holds: lost 0, doubled 0")
