"""`make upgrade`: upgrade an installation under load, on an embedded PostgreSQL."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from onceward.db.embedded import EmbeddedPostgres
from tools.upgrade.run import Shape, run
from tools.upgrade.trees import PREVIOUS, prepare


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--old", help=f"tag, branch, commit or wheel of the old version (default: {PREVIOUS} if the tag exists)"
    )
    parser.add_argument("--new", help="tag, branch, commit or wheel of the new version (default: the working tree)")
    parser.add_argument("--rate", type=float, default=40.0, help="webhooks per second (40)")
    parser.add_argument("--between", type=int, default=80, help="webhooks between two steps (80)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="onceward-upgrade-"))
    folder.chmod(0o755)  # if root runs this, the database runs as another user
    versions = prepare(folder, old=given.old, new=given.new)
    print(versions.origin, flush=True)
    shape = Shape(rate=given.rate, acknowledged_between_steps=given.between)
    server = EmbeddedPostgres(folder / "pg")
    try:
        seen, problems = asyncio.run(run(folder, versions, shape, server.start()))
    finally:
        server.stop()
    print(
        f"answers: {dict(Counter(each.status for each in seen.answers))}, acknowledged events: {len(seen.acknowledged)}"
    )
    slowest = [each.took_s for each in seen.answers if each.status == 200]
    print(f"time to 200: median {statistics.median(slowest) * 1000:.0f} ms, longest {max(slowest) * 1000:.0f} ms")
    print(f"effects by release: {dict(Counter(release for _, _, release in seen.effects))}, calls: {len(seen.calls)}")
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        shutil.rmtree(folder)
    print(f"logs: {folder}" if problems else "every acknowledged event had exactly one effect of each kind")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
