"""A run of the reminders costs what is due, not what is booked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward.db import Database
from onceward_apps.clinic.app import ClinicSettings
from onceward_apps.clinic.store import due
from tests.clinic.practice import Practice

FULL = """
with o as (insert into onceward.organizations (slug, name) values ('full', 'full') returning organization_id),
p as (insert into clinic.patients (organization_id, name) select organization_id, 'p' from o
      returning organization_id, id)
insert into clinic.appointments (organization_id, patient_id, starts_at, reminder_plan, next_reminder_at)
select p.organization_id, p.id, t.at, '24,1', t.at - interval '24 hours'
  from p, generate_series(1, 6000) n,
       lateral (select onceward.now() + interval '24 hours' + n * interval '1 minute' as at) t
"""


async def plan(db: Database, statement: str, *arguments: Any) -> str:
    return "\n".join(row[0] for row in await db.fetch(f"explain {statement}", *arguments))


@pytest.mark.acceptance("001-H reminders")
async def test_the_statements_of_the_reminders_use_their_indexes(db: Database) -> None:
    await db.execute(FULL)
    await db.execute("analyze clinic.appointments")
    reading = await plan(db, due.REMINDERS, datetime(1900, 1, 1, tzinfo=UTC), UUID(int=0), 5000)
    assert "appointments_to_remind" in reading, reading
    planning = await plan(db, due.PLAN_REMINDERS, "24,1", [24, 1], 5000)
    assert "appointments_to_plan" in planning, planning
    assert "Seq Scan on appointments" not in reading + planning, reading + planning


@pytest.mark.acceptance("001-H reminders")
async def test_a_run_looks_only_at_appointments_with_a_due_reminder(practice: Practice) -> None:
    for hours in (25, 26, 27):
        await practice.appointment(await practice.patient(whatsapp=f"+65912345{hours}"), hours=hours)
    assert (await practice.run("clinic-reminders")).processed == 0
    await practice.clock.advance(hours=1)
    report = await practice.run("clinic-reminders")
    assert (report.processed, report.succeeded) == (1, 1)
    assert (await practice.run("clinic-reminders")).processed == 0
    await practice.clock.advance(hours=48)
    late = await practice.run("clinic-reminders")
    assert (late.processed, late.succeeded) == (3, 0), "they are over; each is looked at once more"
    assert (await practice.run("clinic-reminders")).processed == 0


async def test_other_hours_count_for_appointments_that_exist(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30)
    await practice.run("clinic-reminders")
    practice.app.use_settings(ClinicSettings(reminder_hours="28"))
    await practice.clock.advance(hours=2)
    assert (await practice.run("clinic-reminders")).succeeded == 1
    practice.app.use_settings(ClinicSettings(reminder_hours=""))
    await practice.clock.advance(hours=20)
    assert (await practice.run("clinic-reminders")).processed == 0
    assert [row["kind"] for row in await practice.messages()] == ["reminder-28h"]
    assert (await practice.row(appointment))["next_reminder_at"] is None
    assert (await practice.row(appointment))["starts_at"] > practice.clock.at + timedelta(hours=7)
