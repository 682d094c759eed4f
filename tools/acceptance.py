"""Print every acceptance item of the apps with its tests and their result: `make acceptance`, or `make acceptance ARGS=engagement`.

`tests/<app>/acceptance.toml` lists the items of an app; `@pytest.mark.acceptance("AC-5.1.1")` says that a test shows an item.
Exit code 1: an item failed, an item has no test, or a test names an item that does not exist.

This module is also the pytest plugin that reports which test shows which item.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

ROOT = Path(__file__).parents[1]
PROPERTY = "acceptance"
Result = Literal["pass", "fail", "no test"]


@dataclass(frozen=True, slots=True)
class App:
    """The items of one app, in the order of its seed."""

    name: str
    title: str
    items: Mapping[str, str]


@dataclass(slots=True)
class Outcomes:
    """A pytest plugin that collects the outcome of each test by item."""

    by_item: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, item in report.user_properties:
            if name != PROPERTY:
                continue
            tests = self.by_item.setdefault(str(item), {})
            if report.outcome != "passed":
                tests[report.nodeid] = report.outcome
            elif report.when == "call":
                tests.setdefault(report.nodeid, "passed")

    def result(self, item: str) -> Result:
        """A skipped test does not show anything, so it counts as a failure."""
        tests = self.by_item.get(item)
        if not tests:
            return "no test"
        return "pass" if set(tests.values()) == {"passed"} else "fail"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attach the items of a test to its reports. A worker process of pytest-xdist loads this module too."""
    for test in items:
        for mark in test.iter_markers(PROPERTY):
            test.user_properties += [(PROPERTY, str(item)) for item in mark.args]


def load(folder: Path) -> App:
    """Read `acceptance.toml`: `title`, and a table `items` from id to text."""
    content: dict[str, Any] = tomllib.loads((folder / "acceptance.toml").read_text(encoding="utf-8"))
    return App(folder.name, content["title"], content["items"])


def report(app: App, outcomes: Outcomes) -> tuple[list[str], bool]:
    """Return the lines to print and whether every item passed."""
    lines = [f"{app.title} ({app.name})"]
    results = {item: outcomes.result(item) for item in app.items}
    for item, text in app.items.items():
        lines.append(f"  {results[item]:8}{item}  {text}")
        lines += [
            f"          {test.rpartition('::')[2]}{'' if outcome == 'passed' else f': {outcome}'}"
            for test, outcome in sorted(outcomes.by_item.get(item, {}).items())
        ]
    passed = sum(result == "pass" for result in results.values())
    lines.append(f"  {passed} of {len(app.items)} items pass")
    return lines, passed == len(app.items)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("apps", nargs="*", help="Names of apps; default: every app that has an acceptance.toml.")
    parser.add_argument("--workers", default="0", help="Number of test processes.")
    options = parser.parse_args(arguments)
    folders = [path.parent for path in sorted((ROOT / "tests").glob("*/acceptance.toml"))]
    if options.apps:
        unknown = set(options.apps) - {folder.name for folder in folders}
        if unknown:
            parser.error(f"no acceptance.toml for {', '.join(sorted(unknown))}")
        folders = [folder for folder in folders if folder.name in options.apps]
    outcomes = Outcomes()
    flags = ["-m", PROPERTY, "-p", "tools.acceptance", "-n", options.workers, "--no-header", "--rootdir", str(ROOT)]
    finished = pytest.main([*flags, *map(str, folders)], plugins=[outcomes])
    apps = [load(folder) for folder in folders]
    ok = finished == pytest.ExitCode.OK
    for app in apps:
        lines, passed = report(app, outcomes)
        print("\n" + "\n".join(lines))
        ok = ok and passed
    unlisted = set(outcomes.by_item) - {item for app in apps for item in app.items}
    for item in sorted(unlisted):
        print(f"\n  fail    {item}: a test names this item, but no acceptance.toml lists it")
    return 0 if ok and not unlisted else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
