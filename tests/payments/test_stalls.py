"""Jobs of payments whose worker stands still at any moment, while another worker finishes the same work."""

from __future__ import annotations

import pytest

from onceward.testing import stall_test

NAMES = ("refund", "refund_paypal", "capture", "close", "end_plan", "batch")


async def test_a_worker_that_stood_still_cannot_book_a_refund_again(database_url: str) -> None:
    """Meanwhile another worker got the same answer, and the bank has returned the money: the frozen answer is out of date."""
    assert await stall_test("tests.payments.stalled:refund", database_url, only=["answered"]) == ["answered"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
async def test_a_worker_that_stands_still_at_any_gate_changes_nothing(name: str, database_url: str) -> None:
    passed = await stall_test(f"tests.payments.stalled:{name}", database_url)
    assert ("answered" in passed) or name == "batch"
