"""For whom a request uses the database, so that one customer cannot take all connections of a process.

The web sets the caller of each request, live queries the caller of each query. Work in the background has none: claims
divide it.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Caller:
    """Who makes one request: a customer (an organization) and who acts for it.

    Both may become known while the request runs.
    """

    customer: Hashable
    principal: Hashable
    statement_timeout_s: float | None = None
    """PostgreSQL ends a statement of a transaction of this request that takes longer."""
    held: int = 0
    """How many connections the request has now."""


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def calling_as(caller: Caller | None) -> Generator[Caller | None]:
    """Let connections that are borrowed inside this block count for the caller; None: for nobody."""
    token = CALLER.set(caller)
    try:
        yield caller
    finally:
        CALLER.reset(token)
