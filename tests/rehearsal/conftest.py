"""What the tests of rehearsals share."""

from __future__ import annotations

import pytest

from onceward.rehearsal import outside_calls


@pytest.fixture(autouse=True)
def only_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test of this process may have loaded psycopg: then no handler without `tx` would be rehearsed."""
    monkeypatch.setattr(outside_calls, "BEYOND_PYTHON", ())
