"""Pay at a simulated payment service in every way that webhooks and calls go wrong, and require the same result each
time.

    await payments_test(engine, app, organization=..., open=..., observe=...)

Each case (paid; paid and refunded; dispute won; dispute lost) runs first with every webhook in order, then with them
reversed, doubled, lost, during an outage, and with calls that work and answer too late. The app must end in the same
state, and the money of the service, of the payment and of the ledger must agree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from onceward.app import Onceward
from onceward.engine import Engine
from onceward.integration import integrations
from onceward.payments import Page, Payment
from onceward.payments.checks import CHECKS
from onceward.payments.declarations import is_by_hand
from onceward.payments.due import enqueue_due
from onceward.testing.webhook_inbox import TestInbox
from onceward.testing.work import drain
from onceward.tx import Tx

CASES = ("paid", "refunded", "dispute won", "dispute lost")
WAYS = ("in order", "reversed", "twice", "lost", "outage", "late answers")
MOST_ROUNDS = 30
DUE_NOW = (
    "update onceward.work set sort_at = now() where lease is null and dead_at is null and kind <> 'message'",
    "update onceward.payments set ask_at = onceward.now() where ask_at is not null",
    "update onceward.payment_refunds set ask_at = onceward.now() where ask_at is not null",
    "update onceward.payment_disputes set ask_at = onceward.now() where ask_at is not null",
)
LIST = "update onceward.payment_accounts set list_at = case when $1 then onceward.now() else 'infinity' end"


async def payments_test(
    engine: Engine,
    app: Onceward,
    *,
    organization: UUID,
    open: Callable[[Tx], Awaitable[Page]],
    observe: Callable[[Tx, Payment], Awaitable[Any]],
    account: str | None = None,
    cases: tuple[str, ...] = CASES,
) -> list[str]:
    """Run each case in each way, and return their names. Raise AssertionError at the first that ends otherwise.

    `open` creates something new of your app and returns the page on which it is paid, at the account of this name;
    without a name at the first account at a service that the app declares. `observe` returns what your app has for that
    payment; it must not contain ids or times. The engine must not be running jobs by itself.
    """
    accounts = app.registry.payments.accounts
    simulated = [each for each in accounts.values() if not is_by_hand(each.service)]
    declared = next(iter(simulated or accounts.values()), None) if account is None else accounts.get(account)
    if declared is None:
        known = ", ".join(accounts) or "none"
        raise AssertionError(
            f"the app declares no payment account {account or ''}: call app.payments.account; it declares {known}"
        )
    if is_by_hand(declared.service):
        raise AssertionError(
            f"payment account {declared.name!r} is by hand: no service is behind it that could fail. Test it with"
            " tx.payments.record and tx.payments.settle, and name an account at a payment service here"
        )
    service = integrations().load(declared.service, "simulator")(retry_delays_s=())
    await service.start()
    app.services.simulate(declared.service, service.url)
    passed: list[str] = []
    try:
        async with TestInbox(engine, app) as inbox:
            await inbox.add_source(declared.source, provider=declared.service, **service.sample_source())
            stage = _Stage(engine, app, organization, service, inbox, declared.source)
            for case in cases:
                expected = None
                for way in WAYS:
                    found = await stage.run(case, way, open, observe)
                    if expected is None:
                        expected = found
                    if found != expected:
                        raise AssertionError(f"{case}, {way}: the result is\n  {found}\ninstead of\n  {expected}")
                    passed.append(f"{case}, {way}")
    finally:
        await app.services.aclose()
        await service.stop()
    return passed


class _Stage:
    """An app between its payment service and its webhooks, of which each way loses, doubles or turns some."""

    def __init__(
        self, engine: Engine, app: Onceward, organization: UUID, service: Any, inbox: TestInbox, source: str
    ) -> None:
        self.engine, self.app, self.organization = engine, app, organization
        self.service, self.inbox, self.source = service, inbox, source
        self.way = ""
        self.sent: set[str] = set()

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def run(self, case: str, way: str, open: Any, observe: Any) -> dict[str, Any]:
        self.way = way
        async with self.tx() as tx:
            page: Page = await open(tx)
        await self._pay(page)
        await self._go_on()
        async with self.tx() as tx:
            payment = await tx.payments.get(page.payment_id)
        assert payment is not None
        if payment.charge is None:
            raise AssertionError(f"{case}, {way}: the buyer has paid, and the payment is {payment.status}")
        if case == "refunded":
            self._disturb()
            async with self.tx() as tx:
                await tx.payments.refund(page.payment_id, reason="payments_test")
            await self._go_on()
        elif case.startswith("dispute"):
            dispute = self.service.dispute(payment.charge)
            if way != "reversed":
                await self._go_on()
            self.service.close_dispute(dispute, won=case == "dispute won")
            await self._go_on()
        return await self._result(page.payment_id, payment.charge, observe)

    async def _pay(self, page: Page) -> None:
        self._disturb()
        seen: list[str] = []
        for _ in range(3):  # the buyer tries again if the service does not answer
            found = await self.app.payments.visit(self.engine, page.payment_id, organization=self.organization)
            if found.state == "page" and found.url is not None:
                self.service.pay(found.url.rsplit("/", 1)[-1])
                return
            seen.append(f"{found.state}: {found.reason}")
        raise AssertionError(f"{self.way}: there is no payment page; the buyer got {seen}")

    def _disturb(self) -> None:
        """Let the next call to the service fail: before it works, or after it has worked."""
        if self.way in ("outage", "late answers"):
            self.service.break_next(1, act=self.way == "late answers")

    async def _go_on(self) -> None:
        """Deliver what the service reports, do the work, and let time pass, until nothing is left to do."""
        for _ in range(MOST_ROUNDS):
            posted = await self._deliver()
            done = await drain(self.engine)
            if not posted and not done:
                break
        else:
            raise AssertionError(f"{self.way}: webhooks and jobs do not come to an end")
        for statement in DUE_NOW:
            await self.engine.db.execute(statement)
        # The list of events finds what no webhook brought. In the other ways it would hide what they do.
        await self.engine.db.execute(LIST, self.way == "lost")
        await enqueue_due(self.engine.db, self.engine.waker)
        await drain(self.engine)

    async def _deliver(self) -> int:
        fresh = [event for id, event in self.service.books.events.items() if id not in self.sent]
        self.sent |= {event["id"] for event in fresh}
        if self.way == "lost":
            return 0
        for event in reversed(fresh) if self.way == "reversed" else fresh:
            copies = [event, {**event, "id": f"{event['id']}_again"}] if self.way == "twice" else [event]
            for each in copies:
                answer = await self.inbox.post(each, source=self.source)
                if answer.status >= 300:
                    raise AssertionError(f"{self.way}: a webhook was answered with {answer.status}: {answer.body!r}")
        return len(fresh)

    async def _result(self, payment_id: UUID, charge: str, observe: Any) -> dict[str, Any]:
        async with self.tx() as tx:
            payment = await tx.payments.get(payment_id)
            assert payment is not None
            seen = await observe(tx, payment)
        back = self.service.returned(charge)
        if back != payment.refunded:
            raise AssertionError(f"{self.way}: {back} went back at the service, the payment says {payment.refunded}")
        async with self.engine.db.acquire() as conn:
            problems = {check.name: found for check in CHECKS if (found := await check.run(conn))}
        if problems:
            raise AssertionError(f"{self.way}: {problems}")
        sums = {"received": payment.received, "refunded": payment.refunded, "withheld": payment.withheld}
        return {"status": payment.status, "decision": payment.decision, **sums, "observed": seen}
