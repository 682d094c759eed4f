"""SQL of the terms of a sale: ticket types, presale codes, questions, tickets per customer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from onceward import Tx

CODE = "select *, onceward.clock() as now from ticketing.access_codes where event_id = $1 and code = $2"
LOCK_CODE = f"{CODE} for update"
USED = """
select count(*) from ticketing.seat_holds
 where code_id = $1 and (status = 'converted' or (status = 'active' and held_until > onceward.clock()))
"""
TYPES = "select * from ticketing.ticket_types where event_id = $1 order by created_at, id"
SET_TYPES = """
update ticketing.seat_holds h set type_id = w.type_id, code_id = w.code_id
  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as w (id, type_id, code_id)
 where h.id = w.id and h.status = 'active'
"""
QUESTIONS = "select * from ticketing.questions where event_id = $1 and ended_at is null order by created_at, id"
LOCK_CUSTOMER = "select pg_advisory_xact_lock(hashtextextended('ticketing customer ' || $1::uuid || ' ' || $2, 0))"
OF_CUSTOMER = """
select count(*)
  from ticketing.checkouts c
  join ticketing.checkout_items i on i.checkout_id = c.id
  join ticketing.sections x on x.id = i.section_id and x.kind <> 'addon'
 where c.event_id = $1 and c.customer = $2
   and ((c.status = 'completed' and exists (select from ticketing.tickets t where t.item_id = i.id and t.status <>
     'void'))
        or (c.status in ('started', 'failed') and c.expires_at > onceward.clock()))
"""
ADD_TYPE = """
insert into ticketing.ticket_types (event_id, section_id, name, price_cents, is_hidden) values ($1, $2, $3, $4, $5)
       returning *
"""
LOCK_TYPE = """
select y.*, e.currency, x.name as section from ticketing.ticket_types y
  join ticketing.events e on e.id = y.event_id join ticketing.sections x on x.id = y.section_id
 where y.id = $1 for no key update of y
"""
EDIT_TYPE = """
update ticketing.ticket_types
   set price_cents = $2, is_hidden = $3, ended_at = case when $4 then coalesce(ended_at, onceward.now()) end
 where id = $1
"""
ADD_CODE = """
insert into ticketing.access_codes (event_id, section_id, code, most_tickets, valid_until) values ($1, $2, $3, $4, $5)
returning *
"""
CODES = """
select a.*, (select count(*) from ticketing.seat_holds h where h.code_id = a.id and h.status = 'converted') as used
  from ticketing.access_codes a where a.event_id = $1 order by a.code
"""
HAS_CODES = "select exists (select from ticketing.access_codes where event_id = $1)"
LOCK_CODE_BY_ID = "select * from ticketing.access_codes where id = $1 for no key update"
EDIT_CODE = "update ticketing.access_codes set most_tickets = $2, valid_until = $3 where id = $1"
ADD_QUESTION = """
with asked as (update ticketing.events set has_questions = true where id = $1)
insert into ticketing.questions (event_id, title, about, choices, is_required) values ($1, $2, $3, $4, $5) returning *
"""
END_QUESTION = """
update ticketing.questions set ended_at = onceward.now() where id = $1 and ended_at is null returning event_id
"""
SET_ASKS = """
update ticketing.events e
   set has_questions = exists (select from ticketing.questions q where q.event_id = e.id and q.ended_at is null)
 where e.id = $1
"""
SET_WINDOW = "update ticketing.sections set is_hidden = $2, sale_from = $3, sale_until = $4 where id = $1"


async def code(tx: Tx, event_id: UUID, text: str) -> Any:
    """Return a presale code of an event, or None. One with a limit is locked, so that its uses can be counted."""
    row = await tx.fetchrow(CODE, event_id, text)
    if row is None or row["most_tickets"] is None:
        return row
    return await tx.fetchrow(LOCK_CODE, event_id, text)


async def used(tx: Tx, code_id: UUID) -> int:
    """Return how many places are held or were sold with a presale code."""
    return await tx.fetchval(USED, code_id)


async def types(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(TYPES, event_id)


async def set_types(tx: Tx, chosen: Mapping[UUID, UUID | None], codes: Mapping[UUID, UUID | None]) -> None:
    """Set the ticket types of holds, and the code without which each would not be for sale."""
    ids = list(chosen)
    await tx.execute(SET_TYPES, ids, [chosen[id] for id in ids], [codes[id] for id in ids])


async def questions(tx: Tx, event_id: UUID) -> list[Any]:
    """Return what buyers of an event are asked."""
    return await tx.fetch(QUESTIONS, event_id)


async def of_customer(tx: Tx, event_id: UUID, customer: str) -> int:
    """Return how many tickets a customer has or is buying. Others with this address wait until the commit."""
    await tx.execute(LOCK_CUSTOMER, event_id, customer)
    return await tx.fetchval(OF_CUSTOMER, event_id, customer)


async def add_type(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD_TYPE, *values)


async def lock_type(tx: Tx, type_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_TYPE, type_id)


async def edit_type(tx: Tx, type_id: UUID, price_cents: int, is_hidden: bool, is_ended: bool) -> None:
    await tx.execute(EDIT_TYPE, type_id, price_cents, is_hidden, is_ended)


async def add_code(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD_CODE, *values)


async def codes(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(CODES, event_id)


async def has_codes(tx: Tx, event_id: UUID) -> bool:
    return await tx.fetchval(HAS_CODES, event_id)


async def lock_code(tx: Tx, code_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_CODE_BY_ID, code_id)


async def edit_code(tx: Tx, code_id: UUID, most_tickets: int | None, valid_until: Any) -> None:
    await tx.execute(EDIT_CODE, code_id, most_tickets, valid_until)


async def add_question(
    tx: Tx, event_id: UUID, title: str, about: str, choices: Sequence[str], is_required: bool
) -> Any:
    return await tx.fetchrow(ADD_QUESTION, event_id, title, about, list(choices), is_required)


async def end_question(tx: Tx, question_id: UUID) -> UUID | None:
    """End a question; return its event, or None if it had ended or does not exist."""
    event_id = await tx.fetchval(END_QUESTION, question_id)
    if event_id is not None:
        await tx.execute(SET_ASKS, event_id)
    return event_id


async def set_window(tx: Tx, section_id: UUID, is_hidden: bool, sale_from: Any, sale_until: Any) -> None:
    await tx.execute(SET_WINDOW, section_id, is_hidden, sale_from, sale_until)
