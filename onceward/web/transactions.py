"""The transaction of a request of an app: for one organization, with the app's refusals as problems."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from onceward.web.problems import Problem

if TYPE_CHECKING:
    from onceward.engine import Engine
    from onceward.tx import Tx

Refusal = TypeVar("Refusal", bound=Exception)


@asynccontextmanager
async def request_transaction(
    engine: Engine,
    organization: UUID | None,
    *,
    refusals: type[Refusal],
    problem: Callable[[Refusal], Problem],
    needed: str | None = None,
) -> AsyncGenerator[Tx]:
    """Open a transaction for an organization. An error of the class `refusals` becomes the response that `problem` makes of it.

    `needed` is the text of the 400 for a caller without an organization; without it, such a caller may go on.
    """
    if organization is None and needed is not None:
        raise Problem(400, needed)
    try:
        async with engine.transaction(organization=organization) as tx:
            yield tx
    except refusals as error:
        raise problem(error) from error
