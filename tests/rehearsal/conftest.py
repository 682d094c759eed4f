"""What the tests of rehearsals share."""

from __future__ import annotations

import pytest

from onceward.rehearsal import outside_calls
from onceward.rehearsal.commands import selection


@pytest.fixture(autouse=True)
def only_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test of this process may have loaded psycopg: then no handler without `tx` would be rehearsed."""
    monkeypatch.setattr(outside_calls, "BEYOND_PYTHON", ())


@pytest.fixture(autouse=True)
def gave_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how far each command has lowered its priority: this process must keep its own for other tests."""
    lowered: list[int] = []
    monkeypatch.setattr(selection.os, "nice", lowered.append)
    return lowered
