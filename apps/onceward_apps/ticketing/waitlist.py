"""The waitlist of a sold-out event. Places that become free are offered to the next in line, for a limited time.

While somebody waits, nobody else can hold places of the event: `events.has_waitlist` says so, which every hold reads
anyway.
An offer is a basket that holds the places until the offer ends; its link opens the shop with that basket.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing import baskets, notices, sale_terms
from onceward_apps.ticketing.codes import basket_name, is_waitlist_token, waitlist_basket
from onceward_apps.ticketing.errors import NotFound, NotOnSale, SeatTaken, TooMany
from onceward_apps.ticketing.store import keys, sales, setup, waitlist

MOST_AT_ONCE = 50
"""The most offers of one event in one transaction."""
SHORTEST = timedelta(minutes=15)
"""Offers end when the event starts, but nobody gets less time than this."""


async def available(tx: Tx, event_id: UUID) -> int:
    """Return how many places everybody can buy now. Hidden ones and those that are not on sale do not count."""
    occupancy = await sales.occupancy(tx, event_id)
    return max(0, occupancy.available - await waitlist.free_but_closed(tx, event_id))


async def join(tx: Tx, event_id: UUID, *, email: str, name: str, locale: str | None, seats: int) -> Any:
    """Put somebody in the line of a sold-out event. Who waits already keeps the place in the line."""
    event = await setup.lock_event(tx, event_id)
    if event is None or event["status"] == "draft":
        raise NotFound(f"there is no event {event_id}")
    if event["status"] != "on_sale":
        raise NotOnSale(f"{event['name']} is not on sale: it is {event['status']}")
    if (closed := sale_terms.closed(event)) is not None:
        raise NotOnSale(closed.message)
    if seats > event["most_per_order"]:
        raise TooMany(f"an order may have at most {event['most_per_order']} tickets, not {seats}")
    if event["most_per_customer"] is not None and seats > event["most_per_customer"]:
        raise TooMany(f"one customer may have at most {event['most_per_customer']} tickets, not {seats}")
    free = await available(tx, event_id)
    if not event["has_waitlist"] and free >= seats:
        raise NotOnSale(f"{free} places are free: choose seats, there is no need to wait")
    entry = await waitlist.join(tx, event_id, email, name, locale, seats)
    if entry is None:
        return await waitlist.find(tx, event_id, email)
    await waitlist.set_flag(tx, event_id)
    await notices.waitlist_joined(tx, await waitlist.entry(tx, entry["id"]))
    return entry


async def leave(tx: Tx, entry_id: UUID) -> None:
    """Leave the line, or decline an offer: its places go to the next. A repeat changes nothing."""
    entry = await waitlist.lock_entry(tx, entry_id)
    if entry["status"] not in ("waiting", "offered"):
        return
    await waitlist.set_status(tx, entry_id, "left")
    if entry["status"] == "offered":
        await baskets.let_go(tx, entry["event_id"], await _basket(tx, entry_id))
    await waitlist.set_flag(tx, entry["event_id"])


async def opened(tx: Tx, entry_id: UUID, token: str) -> Any:
    """Return an entry to the person who has its link. Any other token gets the error of an unknown entry."""
    entry = await waitlist.entry(tx, entry_id)
    if entry is not None and is_waitlist_token(keys.key_of(tx.engine, entry), entry_id, token):
        return entry
    raise NotFound("there is no such place in a line, or its link is incomplete")


async def offer_next(tx: Tx, event_id: UUID) -> int:
    """Settle old offers and offer what is free to the next in line. Return how many offers were made.

    The first whose wish can be met gets it. If nobody's can, the first gets what is free. The line ends with the event.
    """
    event = await setup.lock_event(tx, event_id)
    for entry_id in await waitlist.given_up(tx, event_id):
        await baskets.let_go(tx, event_id, await _basket(tx, entry_id))
    await waitlist.settle(tx, event_id)
    made = 0
    if event["status"] == "on_sale" and sale_terms.closed(event) is None:
        line = await waitlist.waiting(tx, event_id)
        while line and made < MOST_AT_ONCE:
            seats, places = await _free(tx, event_id, max(entry["seats"] for entry in line))
            free = len(seats) + sum(places.values())
            if free == 0:
                break
            entry = next((each for each in line if each["seats"] <= free), line[0])
            if not await _offer(tx, event, entry, seats, places):
                break
            line.remove(entry)
            made += 1
    await waitlist.set_flag(tx, event_id)
    return made


async def _offer(tx: Tx, event: Any, entry: Any, seats: list[UUID], places: dict[UUID, int]) -> bool:
    """Hold places for an entry and mail its link. False: somebody else took them a moment ago."""
    chosen = seats[: entry["seats"]]
    rest = entry["seats"] - len(chosen)
    of_sections: dict[UUID, int] = {}
    for section, free in places.items():
        if rest > 0 and free > 0:
            of_sections[section] = min(rest, free)
            rest -= of_sections[section]
    lasts = max(SHORTEST, min(timedelta(seconds=event["offer_s"]), event["starts_at"] - event["now"]))
    basket = await _basket(tx, entry["id"])
    try:
        held = await baskets.hold(tx, event["id"], basket, seats=chosen, places=of_sections, offer=lasts)
    except SeatTaken:
        return False
    assert held.until is not None
    await waitlist.offer(tx, entry["id"], basket_name(basket), held.until, len(held.holds))
    await notices.waitlist_offered(tx, await waitlist.entry(tx, entry["id"]))
    return True


async def _free(tx: Tx, event_id: UUID, most: int) -> tuple[list[UUID], dict[UUID, int]]:
    seats = await waitlist.free_seats(tx, event_id, most)
    return seats, {row["section_id"]: max(0, row["free"]) for row in await waitlist.free_places(tx, event_id)}


async def _basket(tx: Tx, entry_id: UUID) -> str:
    return waitlist_basket(await keys.signing_key(tx), entry_id)
