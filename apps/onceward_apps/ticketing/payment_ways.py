"""The ways in which an order can be paid: what is configured here, and takes the currency of the event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from onceward import Tx
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.currencies import SERVICES, is_taken_by
from onceward_apps.ticketing.store import shops

TITLES = {"stripe": "Card", "paypal": "PayPal", "by_hand": "Bank transfer"}


async def offered(tx: Tx, currency: str, event: Any) -> list[tuple[str, str]]:
    """Return the ways that a buyer can choose, each with its title. `event` has `starts_at` and `now`.

    A service counts if the installation or the organization has an account there. Bank transfers are offered if the
    organization has said where to, and if the money can arrive before the event.
    """
    usable = [
        service
        for service in SERVICES
        if is_taken_by(service, currency) and await app.services.is_configured(service, tx.organization)
    ]
    shop = await shops.of(tx)
    if shop["bank_account"] and event["now"] + timedelta(days=shop["transfer_days"]) < event["starts_at"]:
        usable.append("by_hand")
    return [(service, TITLES[service]) for service in usable]
