"""A process that is frozen at any gate of the clinic's work while another one finishes it changes nothing when it resumes."""

from __future__ import annotations

import pytest

from onceward.testing import stall_test
from tests.clinic import scenarios, stalls

NAMES = [each.__name__ for each in scenarios.SCENARIOS]


def test_every_scenario_can_be_frozen() -> None:
    assert [name for name in NAMES if not hasattr(stalls, name)] == []


async def test_a_worker_that_stalls_before_it_records_a_refund_changes_nothing(database_url: str) -> None:
    gates = ["before-commit", "fenced-before-commit"]
    passed = await stall_test("tests.clinic.stalls:paid_while_cancelled", database_url, only=gates)
    assert set(passed) == set(gates)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
async def test_a_worker_that_stalls_at_any_gate_changes_nothing(name: str, database_url: str) -> None:
    assert await stall_test(f"tests.clinic.stalls:{name}", database_url)
