"""Add up the differences that changes of states append, so that the number of users costs a few rows to read."""

from __future__ import annotations

from onceward import Run
from onceward_apps.engagement.app import app
from onceward_apps.engagement.store import states

COUNTS = "engagement-counts"
MANY = 100
"""The number of rows of one organization from which they are added up."""


@app.every(600, name=COUNTS)
async def add_up(run: Run) -> None:
    """Replace the differences of each busy organization by their sums, in one statement. Nobody waits for it."""
    for row in await run.fetch(states.UNFOLDED, MANY):
        async with run.transaction() as tx:
            await tx.become_engine()
            await tx.execute(states.FOLD, row["organization_id"])
