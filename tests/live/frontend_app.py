"""A small app for the page in tests/live/frontend: one live query with a typed result."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel

from onceward import Onceward, Query

app = Onceward("shop")


class Occupancy(BaseModel):
    seats: int
    sold: int


@app.query
async def occupancy(q: Query, *, event_id: UUID) -> Occupancy:
    """Return how many seats an event has."""
    q.watch("shop.seats", event_id=event_id)
    row = await q.fetchrow(
        "select count(*) as seats, count(*) filter (where status = 'sold') as sold from shop.seats where event_id = $1",
        event_id,
    )
    return Occupancy(**dict(row or {}))
