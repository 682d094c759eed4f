"""What organizers set about a sale: ticket types, presale codes, questions, and when a section is on sale."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg

from onceward import Tx
from onceward_apps.ticketing.coupons import SHORTEST
from onceward_apps.ticketing.errors import Exists, Invalid, NotFound
from onceward_apps.ticketing.event_setup import check_amount, check_offset, check_window
from onceward_apps.ticketing.store import sale_terms, setup

MOST_QUESTIONS = 20
MOST_CHOICES = 50


async def add_type(
    tx: Tx, section_id: UUID, name: str, *, price_cents: int, is_hidden: bool = False, actor: str
) -> Any:
    """Add another price to a section: "Student"."""
    section = await setup.lock_section(tx, section_id)
    if section is None:
        raise NotFound(f"there is no section {section_id}")
    check_amount(f"ticket type {name!r}: price_cents", price_cents, section["currency"])
    try:
        row = await sale_terms.add_type(tx, section["event_id"], section_id, name, price_cents, is_hidden)
    except asyncpg.UniqueViolationError:
        raise Exists(f"section {section['name']!r} already has a ticket type {name!r}") from None
    changes = {"section": section["name"], "name": name, "price_cents": price_cents}
    await tx.audit(
        "ticket_type_added", entity_type="Event", entity_id=section["event_id"], changes=changes, actor=actor
    )
    return row


async def change_type(tx: Tx, type_id: UUID, *, price_cents: int, is_hidden: bool, is_ended: bool, actor: str) -> None:
    """Change a ticket type, or end it. Orders that were started keep their price."""
    row = await sale_terms.lock_type(tx, type_id)
    if row is None:
        raise NotFound(f"there is no ticket type {type_id}")
    before = (row["price_cents"], row["is_hidden"], row["ended_at"] is not None)
    if before == (price_cents, is_hidden, is_ended):
        return
    check_amount(f"ticket type {row['name']!r}: price_cents", price_cents, row["currency"])
    await sale_terms.edit_type(tx, type_id, price_cents, is_hidden, is_ended)
    changes = {"name": row["name"], "price_cents": price_cents, "is_hidden": is_hidden, "is_ended": is_ended}
    await tx.audit("ticket_type_changed", entity_type="Event", entity_id=row["event_id"], changes=changes, actor=actor)


async def add_code(
    tx: Tx,
    event_id: UUID,
    code: str,
    *,
    section_id: UUID | None = None,
    most_tickets: int | None = None,
    valid_until: datetime | None = None,
    actor: str,
) -> Any:
    """Add a presale code: with it, buyers choose places before the sale begins, and see what is hidden."""
    if await setup.lock_event(tx, event_id) is None:
        raise NotFound(f"there is no event {event_id}")
    code = code.strip().upper()
    if len(code) < SHORTEST or any(letter.isspace() for letter in code):
        raise Invalid(f"code {code!r}: give at least {SHORTEST} characters without spaces, so that nobody guesses it")
    if valid_until is not None:
        check_offset("valid_until", valid_until)
    if section_id is not None:
        section = await setup.lock_section(tx, section_id)
        if section is None or section["event_id"] != event_id:
            raise NotFound(f"event {event_id} has no section {section_id}")
    try:
        row = await sale_terms.add_code(tx, event_id, section_id, code, most_tickets, valid_until)
    except asyncpg.UniqueViolationError:
        raise Exists(f"the event already has a code {code!r}") from None
    await tx.audit("presale_code_added", entity_type="Event", entity_id=event_id, changes={"code": code}, actor=actor)
    return row


async def change_code(
    tx: Tx, code_id: UUID, *, most_tickets: int | None, valid_until: datetime | None, actor: str
) -> None:
    """Change how many places a code is good for, and until when. Places that were taken with it stay."""
    if valid_until is not None:
        check_offset("valid_until", valid_until)
    row = await sale_terms.lock_code(tx, code_id)
    if row is None:
        raise NotFound(f"there is no presale code {code_id}")
    if (row["most_tickets"], row["valid_until"]) == (most_tickets, valid_until):
        return
    await sale_terms.edit_code(tx, code_id, most_tickets, valid_until)
    changes = {"code": row["code"], "most_tickets": most_tickets}
    await tx.audit("presale_code_changed", entity_type="Event", entity_id=row["event_id"], changes=changes, actor=actor)


async def add_question(
    tx: Tx,
    event_id: UUID,
    title: str,
    *,
    about: Literal["order", "ticket"],
    choices: Sequence[str] = (),
    is_required: bool = False,
    actor: str,
) -> Any:
    """Ask buyers something at the checkout, once per order or about each ticket."""
    if await setup.lock_event(tx, event_id) is None:
        raise NotFound(f"there is no event {event_id}")
    asked = await sale_terms.questions(tx, event_id)
    if len(asked) >= MOST_QUESTIONS:
        raise Invalid(f"the event asks {len(asked)} questions already: end one of them first")
    if any((row["title"], row["about"]) == (title, about) for row in asked):
        raise Exists(f"the event already asks {title!r}")
    chosen = list(dict.fromkeys(each.strip() for each in choices if each.strip()))
    if len(chosen) == 1 or len(chosen) > MOST_CHOICES:
        raise Invalid(f"{title!r} has {len(chosen)} choices: give 2 to {MOST_CHOICES}, or none for a free text")
    row = await sale_terms.add_question(tx, event_id, title, about, chosen, is_required)
    changes = {"title": title, "about": about}
    await tx.audit("question_added", entity_type="Event", entity_id=event_id, changes=changes, actor=actor)
    return row


async def end_question(tx: Tx, question_id: UUID, *, actor: str) -> None:
    """Ask no longer. Answers that were given stay. A repeat changes nothing."""
    event_id = await sale_terms.end_question(tx, question_id)
    if event_id is not None:
        changes = {"question": str(question_id)}
        await tx.audit("question_ended", entity_type="Event", entity_id=event_id, changes=changes, actor=actor)


async def set_window(
    tx: Tx,
    section_id: UUID,
    *,
    is_hidden: bool,
    sale_from: datetime | None,
    sale_until: datetime | None,
    actor: str,
) -> bool:
    """Set when a section is on sale, and whether only buyers with a code see it. What is held stays held.

    Return whether that is a change.
    """
    section = await setup.lock_section(tx, section_id)
    if section is None:
        raise NotFound(f"there is no section {section_id}")
    check_window(f"section {section['name']!r}", sale_from, sale_until)
    if (section["is_hidden"], section["sale_from"], section["sale_until"]) == (is_hidden, sale_from, sale_until):
        return False
    await sale_terms.set_window(tx, section_id, is_hidden, sale_from, sale_until)
    times = {"sale_from": sale_from, "sale_until": sale_until}
    changes = {name: None if at is None else at.isoformat() for name, at in times.items()}
    await tx.audit(
        "section_changed",
        entity_type="Event",
        entity_id=section["event_id"],
        changes={"section": section["name"], "is_hidden": is_hidden, **changes},
        actor=actor,
    )
    return True
