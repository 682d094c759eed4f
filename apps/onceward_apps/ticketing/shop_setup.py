"""How an organizer sells: the sites that show the shop in a frame, the organizer's page, bank transfers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onceward import Tx
from onceward_apps.ticketing.errors import Invalid, NoOrganization
from onceward_apps.ticketing.store import shops

ORIGIN = re.compile(r"https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|http://(localhost|127\.0\.0\.1)(:\d{1,5})?")


async def set_shop(
    tx: Tx, *, sites: Sequence[str], about: str, bank_account: str, transfer_days: int, actor: str
) -> bool:
    """Set how the organization sells. Return whether that is a change."""
    if await shops.of(tx) is None:
        raise NoOrganization
    origins = list(dict.fromkeys(site.strip().lower().rstrip("/") for site in sites if site.strip()))
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            raise Invalid(f"site {origin[:100]!r} is not an origin: write https://example.org, without a path")
    is_changed = await shops.set(tx, origins, about.strip(), bank_account.strip(), transfer_days)
    if is_changed:
        changes = {"sites": origins, "transfer_days": transfer_days}
        await tx.audit(
            "shop_changed", entity_type="organization", entity_id=tx.organization, changes=changes, actor=actor
        )
    return is_changed
