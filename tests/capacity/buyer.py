"""A process full of buyers, to be killed at any moment: `python -m tests.capacity.buyer URL ORG FIRST LAST`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from uuid import UUID

from onceward.capacity import CapacityRefused, Want, claim, convert, held_by
from onceward.db import Database

POOL = "show"
CONNECTIONS = 6


async def buy(db: Database, organization: UUID, holder: str) -> bool:
    """Hold in one transaction, pay in the next: a buyer that dies in between leaves a hold behind."""
    try:
        async with db.transaction(organization=organization) as tx:
            if any(found.state == "sold" for found in await held_by(tx, holder)):
                return True
            held = await claim(tx, [Want(POOL)], holder=holder, until=timedelta(minutes=5))
        async with db.transaction(organization=organization) as tx:
            await convert(tx, held.ids)
    except CapacityRefused:
        return False
    return True


async def main(url: str, organization: UUID, first: int, last: int) -> None:
    db = await Database.open(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    await asyncio.gather(*(buy(db, organization, f"buyer:{number}") for number in range(first, last)))
    await db.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], UUID(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
