"""`make chaos ARGS="--seed 7 --minutes 5"`: run the cluster, break it, and check that nothing was lost or done twice.

The exit code is 1 if the checker found a violation. The seed is printed; the same seed gives the same schedule of faults.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tools.chaos.faults import LASTS_S, plan
from tools.chaos.peers.run import print_peer, run_peer
from tools.chaos.report import print_report
from tools.chaos.run import run
from tools.chaos.system import Shape

JOBS_PER_WEBHOOK = 5
PEER_PATIENCE_MIN = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, help="seed of the schedule of faults (a random one)")
    parser.add_argument("--minutes", type=float, default=5.0, help="duration of load and faults (5)")
    parser.add_argument(
        "--rate", type=float, default=8.0, help="webhooks per second (8); each causes about 12 pieces of work"
    )
    parser.add_argument("--single", action="store_true", help="one PostgreSQL instead of a cluster")
    parser.add_argument(
        "--asynchronous", action="store_true", help="without synchronous replication: commits may be lost"
    )
    parser.add_argument("--only", default="", help=f"only these faults, separated by commas: {', '.join(LASTS_S)}")
    parser.add_argument("--peer", choices=("procrastinate",), help="run this queue instead of Onceward, and count")
    parser.add_argument("--plan", action="store_true", help="print the schedule of faults and end")
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    shape = Shape(cluster=not given.single, synchronous=not given.asynchronous)
    only = tuple(kind for kind in given.only.split(",") if kind)
    if unknown := set(only) - set(LASTS_S):
        parser.error(f"--only {', '.join(unknown)}: not a kind of fault")
    faults = plan(seed, duration_s=60 * given.minutes, nodes=shape.nodes, cluster=shape.cluster, only=only)
    print(f"seed {seed}, {given.minutes:g} minutes, {len(faults)} faults", flush=True)
    if given.plan:
        print(*faults, sep="\n")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="onceward-chaos-"))
    print(f"logs and history are in {folder}", flush=True)
    if given.peer:
        rate, patience_s = JOBS_PER_WEBHOOK * given.rate, 60 * PEER_PATIENCE_MIN
        duration_s = 60 * given.minutes
        print_peer(
            asyncio.run(
                run_peer(
                    folder, shape, faults, peer=given.peer, duration_s=duration_s, rate=rate, patience_s=patience_s
                )
            )
        )
        return 0
    began = time.monotonic()
    outcome = asyncio.run(run(folder, shape, faults, duration_s=60 * given.minutes, rate=given.rate, seed=seed))
    print_report(outcome, took_s=time.monotonic() - began)
    if outcome.problems:
        print(f"FAILED with seed {seed}; the same schedule again: make chaos ARGS='{_again(sys.argv[1:], seed)}'")
    return 1 if outcome.problems else 0


def _again(arguments: list[str], seed: int) -> str:
    """Return the arguments of this run with its seed."""
    return " ".join(arguments if "--seed" in arguments else [*arguments, "--seed", str(seed)])


if __name__ == "__main__":
    sys.exit(main())
