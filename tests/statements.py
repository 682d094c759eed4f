"""Count the statements that code sends to PostgreSQL: a round trip each, so a hot path must not take more of them by and by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import asyncpg

CALLS = ("execute", "executemany", "fetch", "fetchrow", "fetchval")


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yield the list of the statements that this process sends until the end of the block, in their order."""
    sent: list[str] = []

    def counting(name: str) -> Any:
        original = getattr(asyncpg.Connection, name)

        async def call(self: Any, query: str, *args: Any, **options: Any) -> Any:
            sent.append(" ".join(query.split()))
            return await original(self, query, *args, **options)

        return call

    patches = [patch.object(asyncpg.Connection, name, counting(name)) for name in CALLS]
    for each in patches:
        each.start()
    try:
        yield sent
    finally:
        for each in patches:
            each.stop()
