"""Work of the clinic that two processes do: one stands still at a gate, the other finishes it, and the first goes on.

The process of the test opens the practice with its simulated providers and writes their addresses to a table; the process
that is frozen uses the same providers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from onceward.db import Database
from onceward.testing import StallScenario
from onceward_apps.clinic import app
from onceward_apps.clinic.app import ClinicSettings
from tests.clinic import scenarios
from tests.clinic.practice import Practice


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[Practice]:
    app.use_settings(ClinicSettings.model_validate({}))
    await db.execute("create table if not exists public.providers (name text primary key, url text not null)")
    urls = {row["name"]: row["url"] for row in await db.fetch("select * from public.providers")}
    practice = Practice(db, app)
    if urls:
        yield await practice.join(urls)
        await practice.leave()
        return
    await practice.open()
    await practice.sources()
    for name in ("stripe", "whatsapp", "twilio", "daily"):
        await db.execute("insert into public.providers values ($1, $2)", name, getattr(practice, name).url)
    yield practice
    await practice.close()


def scenario(arrange: Callable[[Practice], Awaitable[None]]) -> StallScenario[Practice]:
    return StallScenario(
        open=opened, arrange=arrange, run=Practice.drain, observe=scenarios.observe, reset=scenarios.reset
    )


paid = scenario(scenarios.paid)
paid_while_cancelled = scenario(scenarios.paid_while_cancelled)
paid_and_cancelled = scenario(scenarios.paid_and_cancelled)
declined_and_refunded = scenario(scenarios.declined_and_refunded)
refund_returned = scenario(scenarios.refund_returned)
refund_ended_and_disputed = scenario(scenarios.refund_ended_and_disputed)
link_requested = scenario(scenarios.link_requested)
written = scenario(scenarios.written)
texted = scenario(scenarios.texted)
stopped = scenario(scenarios.stopped)
undelivered = scenario(scenarios.undelivered)
met = scenario(scenarios.met)
reminders_due = scenario(scenarios.reminders_due)
callbacks_lost = scenario(scenarios.callbacks_lost)
webhook_switched_off = scenario(scenarios.webhook_switched_off)
