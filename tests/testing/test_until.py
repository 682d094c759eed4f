"""`until` polls with a deadline."""

from __future__ import annotations

import pytest

from onceward.testing import until


async def test_until_returns_the_first_true_value() -> None:
    values = iter([0, None, [], 7, 8])
    assert await until(lambda: next(values), interval_s=0) == 7


async def test_until_accepts_an_async_condition() -> None:
    values = iter([False, "here"])

    async def look() -> object:
        return next(values)

    assert await until(look, interval_s=0) == "here"


async def test_until_fails_with_the_last_value_after_the_deadline() -> None:
    with pytest.raises(AssertionError, match=r"within 0 s; last value: \[\]"):
        await until(list, timeout_s=0)


async def test_until_raises_an_error_of_the_condition_at_once() -> None:
    def fail() -> bool:
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        await until(fail)
