"""A refund whose worker stands still after the service has answered, while another worker finishes it."""

from __future__ import annotations

from onceward.db import Database
from onceward.testing import stall_test


async def test_a_worker_that_stood_still_cannot_book_a_refund_again(db: Database, database_url: str) -> None:
    """Meanwhile another worker got the same answer, and the bank has returned the money: the frozen answer is out of date."""
    assert "refund-answered" in await stall_test("tests.payments.stalled:refund", database_url)
