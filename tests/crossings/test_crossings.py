"""A short run. `make crossings` runs it for as long as you like."""

from __future__ import annotations

from onceward.testing import TestDatabases
from tests.crossings.machine import check_crossings


def test_everything_that_was_accepted_ends_once(databases: TestDatabases) -> None:
    reached = check_crossings(databases, seed=1, examples=2, steps=10)
    assert reached.shared > 0, "handlers share commits in this machine"
    assert reached.limited > 0, "handlers wait for each other's row locks in this machine"
