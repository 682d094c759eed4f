"""Doctors, and whether one is free."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any

NAMED = """
insert into clinic.doctors as d (name) values ($1)
on conflict (organization_id, name) do update set name = d.name returning *
"""
# An appointment lasts a day at most, so the index finds all that may overlap.
OVERLAPPING = """
select id, starts_at from clinic.appointments
 where organization_id = onceward.organization() and doctor_id = $1
   and status in ('scheduled', 'confirmed', 'in_progress')
   and starts_at > $2::timestamptz - interval '1 day' and starts_at < $2 + make_interval(mins => $3)
   and starts_at + make_interval(mins => duration_minutes) > $2 and id is distinct from $4
 limit 1
"""


async def named(tx: Tx, name: str) -> Row:
    """Return the doctor of this name, adding one if the clinic has none."""
    return await tx.fetchrow(NAMED, name)


async def add(tx: Tx, name: str) -> Row | None:
    """Add a doctor. Return None if the clinic has one of this name."""
    return await tx.fetchrow(
        "insert into clinic.doctors (name) values ($1) on conflict (organization_id, name) do nothing returning *", name
    )


async def find(tx: Tx, name: str) -> Row | None:
    return await tx.fetchrow(
        "select * from clinic.doctors where organization_id = onceward.organization() and name = $1", name
    )


async def names(tx: Tx) -> list[str]:
    rows = await tx.fetch(
        "select name from clinic.doctors where organization_id = onceward.organization() order by name limit 100"
    )
    return [row["name"] for row in rows]


async def lock(tx: Tx, id: UUID) -> None:
    """Wait for others who book this doctor: two may both see that the hour is free."""
    await tx.execute(
        "select from clinic.doctors where organization_id = onceward.organization() and id = $1 for update", id
    )


async def overlapping(tx: Tx, id: UUID, starts_at: datetime, minutes: int, *, besides: UUID | None) -> Row | None:
    """Return an appointment of the doctor that takes part of this time."""
    return await tx.fetchrow(OVERLAPPING, id, starts_at, minutes, besides)
