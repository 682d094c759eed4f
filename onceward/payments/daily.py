"""The daily check of an account: its balance at the service is compared with our books, and accounting hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward.services import Services
from onceward.work import Job

from .account_check import ACCOUNTS, CheckedAccount, check_account

PERIOD = timedelta(days=7)
GRACE = timedelta(hours=4)
"""Payments that changed in the last hours are compared the next day: their reports may be on their way."""
MOST_NAMED = 10
OPEN = """
select d.organization_id, count(*)::int as count,
       (array_agg(d.kind || ' ' || d.reference || ': ' || d.detail order by d.found_at desc))[:$2] as newest
  from onceward.payment_differences d where d.account_id = $1 and d.resolved_at is null group by 1 order by 1
"""
STORE = """
update onceward.payment_accounts set checked = $2::jsonb || jsonb_build_object('at', onceward.now()) where id = $1
"""
TITLE = "Payments differ from the payment service: `onceward payments check` and the page Payments list them"
NOT_CHECKED = "An account at a payment service could not be compared with our books"


@dataclass(frozen=True, slots=True)
class Daily:
    """The job. `services` returns the services of the process."""

    services: Callable[[], Services]

    async def check(self, job: Job, *, account_id: str) -> dict[str, Any]:
        """Check one account, store the result, and notify accounting of what differs."""
        async with job.transaction() as tx:
            engine = tx.engine
        async with engine.db.transaction(role="engine") as tx:
            account = await tx.fetchrow(ACCOUNTS, None, UUID(account_id))
        if account is None:
            return {"account": "gone"}
        now = account["now"]
        checked = await check_account(engine, self.services(), account, since=now - PERIOD, settled_until=now - GRACE)
        result = summary(checked)
        async with engine.db.transaction(role="engine") as tx:
            await tx.execute(STORE, account["id"], result)
            rows = await tx.fetch(OPEN, account["id"], MOST_NAMED)
        if checked.failure is not None:
            await self._tell(engine, account["organization_id"], NOT_CHECKED, account, {"reason": checked.failure})
        for row in rows:
            details = {"differences": row["count"], "newest": row["newest"]}
            await self._tell(engine, row["organization_id"], TITLE, account, details)
        return result

    async def _tell(
        self, engine: Any, organization: UUID | None, title: str, account: Any, details: dict[str, Any]
    ) -> None:
        details = {"account": account["name"], "service": account["service"], **details}
        async with engine.transaction(organization=organization) as tx:
            await tx.notify_admins("PAYMENTS_DIFFER", "warn", title, details, audience="accounting")


def summary(checked: CheckedAccount) -> dict[str, Any]:
    """Return what a check found as numbers. `failure` says why it could not be made."""
    return {
        "compared": checked.compared,
        "in_progress": checked.in_progress,
        "foreign": checked.foreign,
        "booked": checked.booked,
        "differences": len(checked.differences),
        "failure": checked.failure,
    }
