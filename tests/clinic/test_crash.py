"""Crash every handler, job and schedule at every gate: the result is the same as without a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from onceward.testing import crash_test
from tests.clinic import scenarios
from tests.clinic.practice import Practice

Arrange = Callable[[Practice], Awaitable[None]]
ALWAYS = (scenarios.paid_while_cancelled, scenarios.link_requested)
"""Money, in every run of the tests; the others are slow only in number."""
ALL = [
    pytest.param(each, id=each.__name__, marks=() if each in ALWAYS else pytest.mark.slow)
    for each in scenarios.SCENARIOS
]


@pytest.mark.parametrize("arrange", ALL)
async def test_a_crash_at_any_gate_changes_nothing(practice: Practice, arrange: Arrange) -> None:
    await practice.sources()
    gates = await crash_test(
        practice.engine,
        arrange=lambda: arrange(practice),
        observe=lambda: scenarios.observe(practice),
        reset=lambda: scenarios.reset(practice),
    )
    assert gates
