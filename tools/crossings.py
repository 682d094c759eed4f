"""Run random sequences of all public verbs with workers that stop, die and freeze: `make crossings ARGS="--minutes 60 --seed 7"`.

Each round has a seed of its own, which the script prints. A round that fails prints the verbs as a script, and what is
wrong with what happened. `--seed` repeats the choices of a round (not its timing); `--shrink` looks for the shortest script
that still fails, which takes minutes. Exit code 1: a round failed, no handlers shared a commit, or none waited
for each other's row locks.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))

from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward.testing.databases import TestServer
from tests.crossings.machine import check_crossings


def lines_of(error: BaseException) -> list[str]:
    """Return what went wrong and the verbs that led to it. Hypothesis runs a failing example again and groups the errors."""
    lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            lines += lines_of(each)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on (default 5)")
    parser.add_argument("--seed", type=int, help="the seed of the first round; each further round adds one")
    parser.add_argument("--examples", type=int, default=5, help="sequences in a round (default 5)")
    parser.add_argument("--steps", type=int, default=25, help="steps in a sequence (default 25)")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest script that still fails")
    parser.add_argument("--keep-going", action="store_true", help="continue after a round that failed")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    seed = given.seed if given.seed is not None else random.randrange(1 << 30)
    end = time.monotonic() + given.minutes * 60
    rounds = failed = shared = limited = 0
    with TestServer() as url, TestDatabases(url, FEATURES.migrations) as databases:
        while rounds == 0 or time.monotonic() < end:
            began = time.monotonic()
            try:
                reached = check_crossings(
                    databases, seed=seed, examples=given.examples, steps=given.steps, shrinks=given.shrink
                )
                shared += reached.shared
                limited += reached.limited
                outcome = "passed"
            except Exception as error:
                failed += 1
                outcome = "FAILED"
                print("\n".join(lines_of(error)), flush=True)
            rounds += 1
            left_s = max(0.0, end - time.monotonic())
            print(
                f"round {rounds}, seed {seed}: {outcome} in {time.monotonic() - began:.0f} s; {left_s:.0f} s left",
                flush=True,
            )
            if failed and not given.keep_going:
                break
            seed += 1
    print(f"{rounds - failed} rounds passed, {failed} failed; {shared} attempts shared their commit with others")
    print(f"row locks limited the groups of a task {limited} times")
    return 1 if failed or not (shared and limited) else 0


if __name__ == "__main__":
    sys.exit(main())
