"""Measure a run of the clinic's reminders with a million appointments.

reminders-1m        the worst five minutes: 20,000 reminders are due at once; at most the 300 s between two runs
reminders-idle-1m   a run that finds none due, in milliseconds
"""

from __future__ import annotations

import time
from uuid import uuid4

from benchmarks.measure import Measurement, Size, compare
from benchmarks.scans import full_scans
from onceward import Engine
from onceward.db import Database
from onceward.schedules import RunReport, Scheduler, run_here
from onceward.trust import create_organization
from onceward_apps.clinic import app
from onceward_apps.clinic.app import ClinicSettings

CASES = ("reminders-1m", "reminders-idle-1m")
EVERY_S = 300.0
IDLE_MS = 100.0
DUE_SHARE = 50
"""One of this number of appointments has a reminder that is due."""

# Ten appointments of each patient, in the next sixty days; the first reminder 24 hours before.
PATIENTS = """
insert into clinic.patients (organization_id, id, name, whatsapp, locale)
select $1, gen_random_uuid(), 'Patient ' || n, '+65' || (80000000 + n), 'en' from generate_series(1, $2::int / 10) n
"""
APPOINTMENTS = """
insert into clinic.appointments (organization_id, patient_id, starts_at, booked_at, reminder_plan, next_reminder_at)
select $1, p.id, s.at, now() - interval '30 days', '24,1',
       case when m.n = 1 and p.number % 5 = 0 then now() - interval '1 minute' else s.at - interval '24 hours' end
  from (select id, row_number() over () as number from clinic.patients where organization_id = $1) p
 cross join generate_series(1, 10) as m (n)
 cross join lateral (
       select case when m.n = 1 and p.number % 5 = 0 then now() + interval '23 hours 59 minutes'
                   else now() + interval '25 hours' + m.n * interval '5 days' + p.number % 1000 * interval '1 minute'
                   end as at) s
"""


async def measure(db: Database, size: Size, *, only: str | None) -> list[Measurement]:
    """Run the cases on a database that has the tables of the clinic."""
    appointments = size.pick(1_000_000, 100_000, 500)
    engine = Engine(db, app.registry, event_types=app.event_types)
    app.use_settings(ClinicSettings())
    async with db.transaction(role="engine") as tx:
        slug = f"bench-{uuid4().hex[:8]}"
        organization = (await create_organization(tx, slug, name="Bench", actor="bench")).organization_id
    await Scheduler(db, app.schedules.values()).register()
    await db.execute(PATIENTS, organization, appointments)
    await db.execute(APPOINTMENTS, organization)
    await db.execute("analyze clinic.patients, clinic.appointments")

    async def run() -> RunReport:
        report = await run_here(db, app.schedules["clinic-reminders"], open_tx=engine.open_tx, by="bench")
        assert report.status == "success", report
        return report

    async def busy() -> float:
        async with full_scans(db, ["clinic.appointments", "clinic.patients", "clinic.contacts"], most=appointments):
            began = time.perf_counter()
            report = await run()
            taken = time.perf_counter() - began
        assert report.succeeded == appointments // DUE_SHARE, report
        return taken

    async def idle() -> float:
        async with full_scans(db, ["clinic.appointments"], most=appointments):
            began = time.perf_counter()
            report = await run()
            taken = time.perf_counter() - began
        assert report.processed == 0, report
        return taken * 1000

    results: list[Measurement] = []
    # The first idle run also passes the index entries of what was due before; the third does not.
    for case, ours, unit, limit, turns in (
        ("reminders-1m", busy, "s", EVERY_S, 1),
        ("reminders-idle-1m", idle, "ms", IDLE_MS, 3),
    ):
        if only == "reminders-idle-1m" and case != only:
            await run()  # the due ones first
        if only in (None, case):

            async def theirs(limit: float = limit) -> float:
                return limit

            results.append(
                await compare(
                    "clinic",
                    case,
                    ours,
                    unit=unit,
                    baseline=f"a limit of {limit:g} {unit}",
                    theirs=theirs,
                    turns=turns,
                    smaller_is_better=True,
                )
            )
    return results
