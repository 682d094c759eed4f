"""The clinic itself, its patients, and the numbers that they write from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any
APPOINTMENTS_OF_NAMED = """
select a.id from clinic.patients p
  join clinic.appointments a on a.organization_id = p.organization_id and a.patient_id = p.id
 where p.organization_id = onceward.organization()
   and (lower(p.name) = lower($1) or p.reference = $1 or p.phone = $1 or p.whatsapp = $1 or lower(p.email) = lower($1))
 order by a.starts_at desc limit 200
"""

SAVE_CLINIC = """
insert into clinic.clinics as c (name, timezone, locale, country_code) values ($1, $2, $3, $4)
on conflict (organization_id) do update
    set name = excluded.name, timezone = excluded.timezone, locale = excluded.locale,
        country_code = excluded.country_code, updated_at = onceward.now()
  where (c.name, c.timezone, c.locale, c.country_code)
     is distinct from (excluded.name, excluded.timezone, excluded.locale, excluded.country_code)
returning *
"""
SAVE_PATIENT = """
-- Create a patient, or change the one with this id. A null value keeps the stored one.
insert into clinic.patients as p (id, reference, name, phone, whatsapp, email, locale)
values ($1, $2, $3, $4, $5, lower($6), $7)
on conflict (organization_id, id) do update
    set reference = coalesce(excluded.reference, p.reference), name = excluded.name,
        phone = coalesce(excluded.phone, p.phone), whatsapp = coalesce(excluded.whatsapp, p.whatsapp),
        email = coalesce(excluded.email, p.email), locale = coalesce(excluded.locale, p.locale),
        updated_at = onceward.now(), erased_at = null
returning *
"""
CONTACT = """
insert into clinic.contacts as c (number) values ($1)
on conflict (organization_id, number) do update set number = c.number
returning *
"""
HEARD = """
insert into clinic.contacts as c (number, heard_at) values ($1, onceward.now())
on conflict (organization_id, number) do update set heard_at = onceward.now()
returning *
"""
# The row is locked by the update: two messages at the same time cause one acknowledgement.
ACKNOWLEDGE = """
update clinic.contacts set acknowledged_at = onceward.now()
 where id = $1 and (acknowledged_at is null or acknowledged_at <= onceward.now() - $2::interval)
returning id
"""
PATIENTS_OF_NUMBER = """
select * from clinic.patients where (phone = $1 or whatsapp = $1) and erased_at is null order by created_at, id limit 20
"""
KNOWN_NUMBER = """
select number from (
    select phone as number, 1 as place from clinic.patients where phone = any($1) and erased_at is null
    union all select whatsapp, 1 from clinic.patients where whatsapp = any($1) and erased_at is null
    union all select number, 2 from clinic.contacts where number = any($1)
) known order by place, number limit 1
"""
SET_OPT_OUT = """
update clinic.contacts set opted_out_at = case when $2 then coalesce(opted_out_at, onceward.now()) end where id = $1
"""


async def clinic(tx: Tx) -> Row | None:
    return await tx.fetchrow("select * from clinic.clinics where organization_id = $1", tx.organization)


async def save_clinic(tx: Tx, *, name: str, timezone: str, locale: str, country_code: str | None) -> Row | None:
    """Create or change the clinic. Return None if nothing changes."""
    return await tx.fetchrow(SAVE_CLINIC, name, timezone, locale, country_code)


async def organization_of(tx: Tx, kind: str, id: str) -> UUID | None:
    return await tx.fetchval("select clinic.organization_of($1, $2)", kind, id)


async def organizations_of_contact(tx: Tx, number: str) -> list[UUID]:
    """Return the clinics that know a number. For a transaction that acts for no clinic."""
    return [row[0] for row in await tx.fetch("select clinic.organizations_of_contact($1)", number)]


async def save_patient(
    tx: Tx,
    id: UUID,
    *,
    reference: str | None,
    name: str,
    phone: str | None,
    whatsapp: str | None,
    email: str | None,
    locale: str | None,
) -> Row:
    return await tx.fetchrow(SAVE_PATIENT, id, reference, name, phone, whatsapp, email, locale)


async def patient(tx: Tx, id: UUID, *, lock: bool = False) -> Row | None:
    return await tx.fetchrow(f"select * from clinic.patients where id = $1{' for no key update' if lock else ''}", id)


async def patients(tx: Tx, *, search: str | None, limit: int) -> list[Row]:
    """List patients by name, reference, number or address."""
    return await tx.fetch(
        "select * from clinic.patients where organization_id = onceward.organization() and erased_at is null"
        " and ($1::text is null or name ilike '%' || $1 || '%'"
        " or reference = $1 or phone = $1 or whatsapp = $1 or email = lower($1)) order by name, id limit $2",
        search,
        limit,
    )


async def patients_of_number(tx: Tx, number: str) -> Sequence[Row]:
    return await tx.fetch(PATIENTS_OF_NUMBER, number)


async def known_number(tx: Tx, numbers: Sequence[str]) -> str | None:
    """Return the one of several forms of a number under which the clinic knows a person."""
    return await tx.fetchval(KNOWN_NUMBER, list(numbers))


async def contact(tx: Tx, number: str) -> Row:
    """Return the contact of a number, creating it if needed."""
    return await tx.fetchrow(CONTACT, number)


async def contact_by_id(tx: Tx, id: UUID) -> Row | None:
    return await tx.fetchrow("select * from clinic.contacts where id = $1", id)


async def heard_from(tx: Tx, number: str) -> Row:
    return await tx.fetchrow(HEARD, number)


async def may_acknowledge(tx: Tx, contact_id: UUID, every: timedelta) -> bool:
    """Claim the acknowledgement of this period. Return False if the contact got one already."""
    return await tx.fetchval(ACKNOWLEDGE, contact_id, every) is not None


async def set_opt_out(tx: Tx, contact_id: UUID, opted_out: bool) -> None:
    await tx.execute(SET_OPT_OUT, contact_id, opted_out)


async def now(tx: Tx) -> Any:
    return await tx.fetchval("select onceward.now()")


async def appointments_of_named(tx: Tx, text: str) -> list[UUID]:
    """Return the newest appointments of the patients with this name, number, address or reference."""
    return [row["id"] for row in await tx.fetch(APPOINTMENTS_OF_NAMED, text)]
