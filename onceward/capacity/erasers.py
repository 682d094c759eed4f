"""The personal data in capacity: the holder of a claim, if the app names a person as holder."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="claims on capacity",
        table="onceward.capacity_claims",
        columns={"holder": "text"},
        blank={"holder": "m.mark"},
        # The app finds a live claim by its holder, to sell or release it.
        waits="t.state in ('held', 'sold')",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.capacity_groups.key": "names what is sold, not a person",
    "onceward.capacity_pools.key": "names what is sold, not a person",
    "onceward.capacity_units.unit": "names what is sold, not a person",
    "onceward.capacity_claims.unit": "names what is sold, not a person",
}
