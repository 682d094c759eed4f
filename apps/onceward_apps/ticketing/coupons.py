"""Coupons of an organizer: a percentage, or an amount in one currency."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from onceward import Tx
from onceward_apps.ticketing.errors import Invalid, NotFound
from onceward_apps.ticketing.event_setup import check_amount, check_offset
from onceward_apps.ticketing.store import setup

SHORTEST = 6


async def add(
    tx: Tx,
    code: str,
    *,
    event_id: UUID | None = None,
    percent_bps: int | None = None,
    amount_cents: int | None = None,
    currency: str | None = None,
    most_uses: int | None = None,
    valid_until: datetime | None = None,
    actor: str,
) -> Any:
    """Add a coupon of a percentage, or of an amount, which counts for events in its currency only."""
    if (percent_bps is None) == (amount_cents is None):
        raise Invalid(f"coupon {code!r}: give either percent_bps or amount_cents")
    currency = await _currency(tx, code, event_id, amount_cents, currency)
    if valid_until is not None:
        check_offset("valid_until", valid_until)
    if len(code.strip()) < SHORTEST:
        raise Invalid(f"coupon {code!r}: a code needs {SHORTEST} characters, so that nobody guesses it")
    try:
        coupon = await setup.add_coupon(
            tx, event_id, code.strip().upper(), percent_bps, amount_cents, currency, most_uses, valid_until
        )
    except asyncpg.UniqueViolationError:
        raise Invalid(f"there is already a coupon {code.upper()!r}") from None
    await tx.audit("coupon_added", entity_type="Coupon", entity_id=coupon["id"], changes={"code": code}, actor=actor)
    return coupon


async def edit(tx: Tx, coupon_id: UUID, *, most_uses: int | None, valid_until: datetime | None, actor: str) -> None:
    """Change how often and until when a coupon can be used. Orders that have it keep their discount."""
    if valid_until is not None:
        check_offset("valid_until", valid_until)
    coupon = await setup.lock_coupon(tx, coupon_id)
    if coupon is None:
        raise NotFound(f"there is no coupon {coupon_id}")
    if (coupon["most_uses"], coupon["valid_until"]) == (most_uses, valid_until):
        return
    await setup.edit_coupon(tx, coupon_id, most_uses, valid_until)
    await tx.audit(
        "coupon_changed",
        entity_type="Coupon",
        entity_id=coupon_id,
        changes={
            "most_uses": {"from": coupon["most_uses"], "to": most_uses},
            "valid_until": {"from": _iso(coupon["valid_until"]), "to": _iso(valid_until)},
        },
        actor=actor,
    )


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


async def _currency(
    tx: Tx, code: str, event_id: UUID | None, amount_cents: int | None, currency: str | None
) -> str | None:
    """Return the currency of the coupon's amount, by default that of its event."""
    event = None if event_id is None else await setup.event(tx, event_id)
    if event_id is not None and event is None:
        raise NotFound(f"there is no event {event_id}")
    if amount_cents is None:
        if currency is not None:
            raise Invalid(f"coupon {code!r}: currency {currency!r} belongs to amount_cents; a percentage has none")
        return None
    if event is not None and currency not in (None, event["currency"]):
        raise Invalid(f"coupon {code!r}: currency is {currency!r}, and the event is sold in {event['currency']}")
    if event is not None:
        currency = event["currency"]
    if currency is None:
        raise Invalid(f"coupon {code!r}: give the currency of amount_cents {amount_cents}, or an event")
    check_amount(f"coupon {code!r}: amount_cents", amount_cents, currency)
    return currency
