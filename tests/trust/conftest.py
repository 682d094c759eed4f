"""Two organizations that must never see each other."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.trust import create_organization
from onceward.trust.secrets import SecretBox

BOX = SecretBox(["k" * 32])


@dataclass(frozen=True)
class Two:
    a: UUID
    b: UUID


@pytest.fixture
async def two(db: Database) -> Two:
    async with db.transaction(role="engine") as tx:
        a = await create_organization(tx, "acme", actor="test")
        b = await create_organization(tx, "bolt", actor="test")
    return Two(a.organization_id, b.organization_id)
