"""Pay at a simulated payment service in every way that webhooks and calls go wrong, and require the same result each time.

    await payments_test(engine, app, organization=..., open=..., observe=...)

Each story (paid; paid and refunded; dispute won; dispute lost) runs first with every webhook in order, then with them
reversed, doubled, lost, during an outage, and with calls that work and answer too late. The app must end in the same state,
and the money of the service, of the payment and of the ledger must agree.
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
from onceward.payments.due import enqueue_due
from onceward.testing.inbox import TestInbox
from onceward.testing.work import drain
from onceward.tx import Tx

SERVICE = "stripe"
STORIES = ("paid", "refunded", "dispute won", "dispute lost")
WAYS = ("in order", "reversed", "twice", "lost", "outage", "late answers")
MOST_ROUNDS = 30
DUE_NOW = (
    "update onceward.work set sort_at = now() where lease is null and dead_at is null and kind <> 'message'",
    "update onceward.payments set ask_at = onceward.now() where ask_at is not null",
    "update onceward.payment_refunds set ask_at = onceward.now() where ask_at is not null",
    "update onceward.payment_disputes set ask_at = onceward.now() where ask_at is not null",
    "update onceward.payment_accounts set list_at = onceward.now()",
)


async def payments_test(
    engine: Engine,
    app: Onceward,
    *,
    organization: UUID,
    open: Callable[[Tx], Awaitable[Page]],
    observe: Callable[[Tx, Payment], Awaitable[Any]],
    stories: tuple[str, ...] = STORIES,
) -> list[str]:
    """Tell each story in each way, and return their names. Raise AssertionError at the first that ends otherwise.

    `open` creates something new of your app and returns the page on which it is paid. `observe` returns what your app has
    for that payment; it must not contain ids or times. The engine must not be running jobs by itself.
    """
    declared = [each for each in app.registry.payments.accounts.values() if each.service == SERVICE]
    if not declared:
        raise AssertionError(f"the app declares no account at {SERVICE}: call app.payments.account(...)")
    service = integrations().load(SERVICE, "simulator")(retry_delays_s=())
    await service.start()
    app.services.simulate(SERVICE, service.url)
    told: list[str] = []
    try:
        async with TestInbox(engine, app) as inbox:
            await inbox.add_source(declared[0].source, provider=SERVICE)
            stage = _Stage(engine, app, organization, service, inbox, declared[0].source)
            for story in stories:
                expected = None
                for way in WAYS:
                    found = await stage.tell(story, way, open, observe)
                    if expected is None:
                        expected = found
                    if found != expected:
                        raise AssertionError(f"{story}, {way}: the result is\n  {found}\ninstead of\n  {expected}")
                    told.append(f"{story}, {way}")
    finally:
        await app.services.aclose()
        await service.stop()
    return told


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

    async def tell(self, story: str, way: str, open: Any, observe: Any) -> dict[str, Any]:
        self.way = way
        async with self.tx() as tx:
            page: Page = await open(tx)
        charge = await self._pay(page)
        await self._go_on()
        if story == "refunded":
            self._disturb()
            async with self.tx() as tx:
                await tx.payments.refund(page.payment_id, reason="payments_test")
            await self._go_on()
        elif story.startswith("dispute"):
            dispute = self.service.open_dispute(charge)["id"]
            if way != "reversed":
                await self._go_on()
            self.service.close_dispute(dispute, won=story == "dispute won")
            await self._go_on()
        return await self._result(page.payment_id, charge, observe)

    async def _pay(self, page: Page) -> str:
        self._disturb()
        seen: list[str] = []
        for _ in range(3):  # the buyer tries again if the service does not answer
            found = await self.app.payments.visit(self.engine, page.payment_id, organization=self.organization)
            if found.state == "page" and found.url is not None:
                return self.service.pay(found.url.rsplit("/", 1)[-1])["payment_intent"]
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
                assert answer.status < 300, f"{event['type']} was answered with {answer.status}"
        return len(fresh)

    async def _result(self, payment_id: UUID, charge: str, observe: Any) -> dict[str, Any]:
        async with self.tx() as tx:
            payment = await tx.payments.get(payment_id)
            assert payment is not None
            seen = await observe(tx, payment)
        back = sum(each["amount"] for each in self.service.books.refunds.values() if each["payment_intent"] == charge)
        if back != payment.refunded:
            raise AssertionError(f"{self.way}: {back} went back at the service, the payment says {payment.refunded}")
        async with self.engine.db.acquire() as conn:
            problems = {check.name: found for check in CHECKS if (found := await check.run(conn))}
        if problems:
            raise AssertionError(f"{self.way}: {problems}")
        sums = {"received": payment.received, "refunded": payment.refunded, "withheld": payment.withheld}
        return {"status": payment.status, "decision": payment.decision, **sums, "observed": seen}
