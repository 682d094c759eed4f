"""A process that is frozen at any gate of the school's work while another one finishes it changes nothing when it resumes."""

from __future__ import annotations

import pytest

from onceward.testing import stall_test
from tests.learning.stalls import PREPARES


async def test_a_worker_that_stalls_before_it_enrols_changes_nothing(database_url: str) -> None:
    gates = ["before-commit"]
    assert await stall_test("tests.learning.stalls:paid_checkout", database_url, only=gates) == gates


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PREPARES)
async def test_a_worker_that_stalls_at_any_gate_changes_nothing(name: str, database_url: str) -> None:
    assert await stall_test(f"tests.learning.stalls:{name}", database_url)
