"""Work of the school that two processes do: one stands still at a gate, the other finishes it, and the first goes on.

The scenarios are those of the crash tests, found by name: `tests.learning.stalls:paid_checkout`. The process of the test
has the simulated Stripe and writes its address to a table; the process that is frozen uses the same one.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.testing import StallScenario, drain
from onceward_apps.learning import app as learning
from tests.learning import test_crashes, test_every_crash, test_job_crashes, test_money_crashes
from tests.learning.classroom import SURVEYS
from tests.learning.school import School
from tests.learning.test_crashes import Prepare, named, totals

PREPARES: dict[str, Prepare] = {
    name.replace(".", "_"): prepare
    for name, prepare in (
        *((named(prepare), prepare) for prepare in test_crashes.SCENARIOS),
        *((name, prepare) for name, (prepare, _) in test_money_crashes.SCENARIOS.items()),
        *((name, prepare) for name, (prepare, _) in test_every_crash.SCENARIOS.items()),
        *((name, prepare) for name, (prepare, _) in test_job_crashes.SCENARIOS.items()),
    )
}

SETTINGS = SURVEYS.model_copy(update={"refunds_per_second": 100})
"""Of both processes: whichever does the work, it knows the surveys."""


@dataclass(slots=True)
class Host:
    """A school in one of the two processes, and what there was before the work that is compared."""

    school: School
    cohort: UUID | None = None
    before: dict[str, int] = field(default_factory=dict[str, int])


def opened(prepare: Prepare) -> Any:
    @asynccontextmanager
    async def open_host(db: Database) -> AsyncGenerator[Host]:
        await db.execute("create table if not exists public.providers (name text primary key, url text not null)")
        url = await db.fetchval("select url from public.providers where name = 'stripe'")
        with tempfile.TemporaryDirectory() as folder:
            if url is not None:
                school = await School.join(db, Path(folder), url)
                learning.use_settings(SETTINGS)
                yield Host(school)
                await school.leave()
                return
            school = await School.open(db, Path(folder))
            learning.use_settings(SETTINGS)
            await db.execute("insert into public.providers values ('stripe', $1)", school.stripe.url)
            host = Host(school)
            # The first run of a database does work that no later one does.
            await arrange(prepare, host)
            await run(host)
            await reset(host)
            yield host
            await school.close()

    def enter(db: Database) -> AbstractAsyncContextManager[Host]:
        return open_host(db)

    return enter


async def arrange(prepare: Prepare, host: Host) -> None:
    host.cohort = await prepare(host.school)


async def run(host: Host) -> None:
    await drain(host.school.engine)


async def observe(host: Host) -> dict[str, Any]:
    """Deliver what Stripe has sent meanwhile, and return how this work changed the numbers."""
    school = host.school
    await school.deliver()
    after = await totals(school)
    left: dict[str, Any] = {
        name: after[name] - host.before.get(name, 0) for name in after if after[name] != host.before.get(name, 0)
    }
    await school.verify()
    assert host.cohort is not None
    return left | {"free places": await school.free(host.cohort)}


async def reset(host: Host) -> None:
    """Nothing is removed: what is compared is the difference."""
    await host.school.deliver()
    host.before = await totals(host.school)


def scenario(prepare: Prepare) -> StallScenario[Host]:
    async def arranged(host: Host) -> None:
        await arrange(prepare, host)

    return StallScenario(open=opened(prepare), arrange=arranged, run=run, observe=observe, reset=reset)


def __getattr__(name: str) -> StallScenario[Host]:
    try:
        return scenario(PREPARES[name])
    except KeyError:
        raise AttributeError(name) from None
