"""A small chart of accounts for one organization."""

from __future__ import annotations

import uuid
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.ledger import Entry, open_account


@pytest.fixture
def organization() -> UUID:
    return uuid.uuid4()


@pytest.fixture
async def books(db: Database, organization: UUID) -> UUID:
    """The organization, with cash, revenue, tax, fees and a bounded wallet in EUR, and cash in USD."""
    async with db.transaction(organization=organization) as tx:
        await open_account(tx, "cash", currency="EUR", kind="asset")
        await open_account(tx, "cash", currency="USD", kind="asset")
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
        await open_account(tx, "tax", currency="EUR", kind="liability")
        await open_account(tx, "fees", currency="EUR", kind="expense")
        await open_account(tx, "wallet", currency="EUR", kind="liability", bounded=True)
    return organization


def sale(amount: int = 1000) -> list[Entry]:
    """What a sale posts: the net and the tax."""
    return [Entry("cash", "revenue", amount, "EUR"), Entry("cash", "tax", amount // 5 or 1, "EUR")]
