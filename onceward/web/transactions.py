"""The transaction of a request of an app: for one organization, with the app's refusals as problems."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from asyncpg import NotNullViolationError, PostgresError

from onceward.trust.sqlstates import NEEDS_ORGANIZATION
from onceward.web.problems import Problem

if TYPE_CHECKING:
    from onceward.engine import Engine
    from onceward.tx import Tx

CHOOSE = "choose the organization to act for with the header X-Organization"
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
    """Open a transaction for an organization. An error of the class `refusals` becomes the response that `problem`
    makes of it.

    `needed` is the text of the 400 for a caller without an organization. Without it, such a caller may read, and gets
    the 400 for a row or a feature that needs an organization.
    """
    if organization is None and needed is not None:
        raise Problem(400, needed)
    try:
        async with engine.transaction(organization=organization) as tx:
            yield tx
    except refusals as error:
        raise problem(error) from error
    except PostgresError as error:
        if organization is None and _needs_organization(error):
            raise Problem(400, CHOOSE) from error
        raise


def _needs_organization(error: PostgresError) -> bool:
    empty = isinstance(error, NotNullViolationError) and getattr(error, "column_name", None) == "organization_id"
    return empty or error.sqlstate == NEEDS_ORGANIZATION
