"""Run the tests of one app and check how much of the app they cover: `make coverage APP=engagement`.

Exit code 1: a test failed, or fewer than 85 % of the lines, 80 % of the branches or 90 % of the functions were executed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LINES, BRANCHES, FUNCTIONS = 85.0, 80.0, 90.0


@dataclass(frozen=True, slots=True)
class Share:
    """How many of a total were executed."""

    covered: int
    total: int

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.total if self.total else 100.0


def read(report: dict[str, Any]) -> dict[str, Share]:
    """Return the shares of a coverage report. A function is covered if one of its lines was executed."""
    totals = report["totals"]
    functions = [
        region["summary"]
        for file in report["files"].values()
        for name, region in file["functions"].items()
        if name and region["summary"]["num_statements"]
    ]
    return {
        "lines": Share(totals["covered_lines"], totals["num_statements"]),
        "branches": Share(totals["covered_branches"], totals["num_branches"]),
        "functions": Share(sum(each["covered_lines"] > 0 for each in functions), len(functions)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("app", help="Name of the folder below apps/onceward_apps and tests.")
    parser.add_argument("--lines", type=float, default=LINES)
    parser.add_argument("--branches", type=float, default=BRANCHES)
    parser.add_argument("--functions", type=float, default=FUNCTIONS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        tested = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-n", "0", "-q", f"tests/{options.app}"),
                f"--cov=onceward_apps.{options.app}",
                "--cov-branch",
                f"--cov-report=json:{path}",
                "--cov-report=term-missing:skip-covered",
            ],
            cwd=ROOT,
            env={**os.environ, "COVERAGE_FILE": str(Path(folder) / "data")},
            check=False,
        )
        if not path.exists():
            return 1
        shares = read(json.loads(path.read_text(encoding="utf-8")))
    ok = tested.returncode == 0
    for name, share in shares.items():
        needed: float = getattr(options, name)
        enough = share.percent >= needed
        ok = ok and enough
        print(f"{'ok' if enough else 'fail':5}{name}: {share.percent:.1f} % of {share.total}, {needed:g} % needed")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
