"""The terms of a sale that a buyer meets: sale windows, presale codes, ticket types, questions, tickets
per customer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing.errors import BadCode, Invalid, NotOnSale, TooMany
from onceward_apps.ticketing.store import sale_terms

MOST_ANSWER = 1000
"""The longest answer to a question, in characters."""

Answers = Mapping[UUID, str]
"""Answers by the id of their question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a buyer has answered: about the order, and about the ticket of each hold."""

    order: Answers = field(default_factory=dict[UUID, str])
    tickets: Mapping[UUID, Answers] = field(default_factory=dict[UUID, Answers])


async def read_code(tx: Tx, event_id: UUID, text: str) -> Any:
    """Return a presale code that is valid now; None if none was given. Raises `BadCode` for any other text."""
    if not text.strip():
        return None
    row = await sale_terms.code(tx, event_id, text.strip().upper())
    if row is None:
        raise BadCode(f"there is no code {text.strip()[:40]!r} for this event")
    if row["valid_until"] is not None and row["valid_until"] <= row["now"]:
        raise BadCode(f"code {row['code']!r} is over")
    return row


async def admit(tx: Tx, event: Any, sections: Sequence[Any], text: str) -> UUID | None:
    """Refuse places that are not on sale now. Return the code without which some of them would not be.

    `sections` has the row of its section for each place.
    """
    why = [refusal for section in sections if (refusal := not_on_sale(event, section)) is not None]
    code = await read_code(tx, event["id"], text)
    if not why:
        return None
    closed = next((each for each in why if each.is_over), None)
    if closed is not None or code is None:
        raise NotOnSale((closed or why[0]).message)
    if code["section_id"] is not None:
        for section in sections:
            if (refusal := not_on_sale(event, section)) is not None and not opens(code, section):
                raise NotOnSale(refusal.message)
    await _take_uses(tx, code, len(why))
    return code["id"]


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a place is not on sale. A code opens it, unless the sale `is_over`."""

    message: str
    is_over: bool = False


def closed(event: Any) -> Closed | None:
    """Return why nothing of the event is on sale for everybody; None if something may be."""
    return _over(event, event["name"], event["now"]) or _early(event, event["name"], event["now"])


def not_on_sale(event: Any, section: Any) -> Closed | None:
    """Return why a place of the section is not on sale for everybody; None if it is."""
    now, name = event["now"], section["section"]
    over = _over(event, event["name"], now) or _over(section, name, now)
    early = _early(event, event["name"], now) or _early(section, name, now)
    return over or early or (Closed(f"{name} needs a code") if section["is_hidden"] else None)


def _over(row: Any, name: str, now: datetime) -> Closed | None:
    until = row["sale_until"]
    if until is None or until > now:
        return None
    return Closed(f"the sale of {name} is over since {_written(until)}", is_over=True)


def _early(row: Any, name: str, now: datetime) -> Closed | None:
    since = row["sale_from"]
    return None if since is None or since <= now else Closed(f"the sale of {name} begins at {_written(since)}")


def opens(code: Any, section: Any) -> bool:
    """Return whether a code opens the section: it is hidden or not on sale yet."""
    return code is not None and code["section_id"] in (None, section["section_id"])


def _written(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


# -- ticket types ----------------------------------------------------------------------------------------------------


async def types_of(tx: Tx, event_id: UUID) -> list[Any]:
    """Return the ticket types of an event that can be chosen."""
    return [row for row in await sale_terms.types(tx, event_id) if row["ended_at"] is None]


async def set_types(
    tx: Tx, event: Any, holds: Sequence[Any], chosen: Mapping[UUID, UUID | None], text: str | None
) -> None:
    """Set the ticket types of these holds. A type belongs to one section; a hidden one needs a code that opens it.

    A place with a hidden type counts for the code, as a hidden place does. Without a text the staff chooses, which
    needs no code.
    """
    known = {row["id"]: row for row in await sale_terms.types(tx, event["id"])}
    code = None if text is None else await read_code(tx, event["id"], text)
    codes: dict[UUID, UUID | None] = {}
    for hold in holds:
        type_id = chosen[hold["id"]]
        codes[hold["id"]] = None if not_on_sale(event, hold) is None else hold["code_id"]
        if type_id is None:
            continue
        row = known.get(type_id)
        if row is None or row["section_id"] != hold["section_id"] or row["ended_at"] is not None:
            raise Invalid(f"{hold['section']} has no ticket type {type_id}: choose one that the event lists")
        if row["is_hidden"] and text is not None:
            if code is None or not opens(code, row):
                raise NotOnSale(f"{row['name']} needs a code")
            codes[hold["id"]] = code["id"]
    if code is not None:
        after, before = (
            sum(id == code["id"] for id in ids) for ids in (codes.values(), [row["code_id"] for row in holds])
        )
        await _take_uses(tx, code, after - before)
    await sale_terms.set_types(tx, chosen, codes)


async def _take_uses(tx: Tx, code: Any, number: int) -> None:
    """Refuse more places than a presale code is good for. `code` is locked if it has a limit."""
    if code["most_tickets"] is None or number <= 0:
        return
    left = max(0, code["most_tickets"] - await sale_terms.used(tx, code["id"]))
    if left < number:
        raise TooMany(f"code {code['code']!r} is good for {left} more places, not for {number}")


# -- questions -------------------------------------------------------------------------------------------------------


async def answered(tx: Tx, event: Any, holds: Sequence[Any], given: Given | None) -> dict[str, Any]:
    """Return the answers of a checkout as they are stored. Tickets are in the order of the holds; add-ons have none."""
    given = given or Given()
    questions = await sale_terms.questions(tx, event["id"])
    of_order = [row for row in questions if row["about"] == "order"]
    of_ticket = [row for row in questions if row["about"] == "ticket"]
    if unknown := set(given.tickets) - {row["id"] for row in holds}:
        raise Invalid(f"answers.tickets names hold {min(unknown)}, which this basket does not have")
    return {
        "order": _checked(of_order, given.order, "the order"),
        "tickets": [
            {}
            if row["kind"] == "addon"
            else _checked(of_ticket, given.tickets.get(row["id"], {}), row["label"] or row["section"])
            for row in holds
        ],
    }


def _checked(questions: Sequence[Any], answers: Answers, about: str) -> dict[str, str]:
    """Return the answers by the title of their question, which stays readable when the question has ended."""
    if unknown := set(answers) - {row["id"] for row in questions}:
        raise Invalid(f"question {min(unknown)} is not asked about {about}")
    checked: dict[str, str] = {}
    for row in questions:
        answer = answers.get(row["id"], "").strip()
        if len(answer) > MOST_ANSWER:
            raise Invalid(f"the answer to {row['title']!r} has {len(answer)} characters: give at most {MOST_ANSWER}")
        if not answer:
            if row["is_required"]:
                raise Invalid(f"{row['title']!r} needs an answer for {about}")
        elif row["choices"] and answer not in row["choices"]:
            raise Invalid(f"the answer to {row['title']!r} must be one of {', '.join(row['choices'])}")
        else:
            checked[row["title"]] = answer
    return checked


# -- tickets per customer --------------------------------------------------------------------------------------------


async def limit_customer(tx: Tx, event: Any, email: str, holds: Sequence[Any]) -> str | None:
    """Refuse more tickets than one address may have in the event.

    Return the address as it counts; None without a limit.
    """
    if event["most_per_customer"] is None:
        return None
    customer = email.strip().lower()
    wanted = sum(row["kind"] != "addon" for row in holds)
    has = await sale_terms.of_customer(tx, event["id"], customer)
    if has + wanted > event["most_per_customer"]:
        raise TooMany(
            f"one customer may have at most {event['most_per_customer']} tickets of this event:"
            f" this address has {has}, and this order has {wanted} more"
        )
    return customer
