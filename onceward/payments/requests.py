"""`tx.payments`: open and close pages, request refunds, read payments. Nothing here calls a service: jobs and visits
do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from onceward.durations import Duration, in_seconds
from onceward.money import Money

from . import batches, plans, refunds, reports, store
from .declarations import PaymentRegistry, Subject, is_by_hand, service_class
from .errors import NotFound, NotPayable, PaymentPending, UnknownAccount
from .job_queue import ASK, CLOSE, enqueue
from .model import Instalments, Page, Payment, Refund, RefundBatch, Share
from .service import Line, PaymentReport

Row = Any
ALMOST_OVER = timedelta(minutes=5)
LONGEST_S = 400 * 86400.0

SUPERSEDE = (
    "update onceward.payments set superseded_at = onceward.now(), close_at = least(close_at, onceward.now())"
    " where id = $1"
)
CLOSE_NOW = "update onceward.payments set close_at = least(close_at, onceward.now()) where id = $1"
KEEP_RECEIPT = """
update onceward.payments set receipt = case when erased_at is null then $4 end
 where organization_id = onceward.organization() and subject_type = $1 and subject_id = $2 and charge = $3 returning id
"""
ADD_PLAN = """
insert into onceward.payment_plans (payment_id, account_id, count, months, grace_days) values ($1, $2, $3, $4, $5)
returning id
"""


class TxPayments:
    """The payments of one transaction. Everything takes effect if and only if the transaction commits."""

    __slots__ = ("_tx",)

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    async def open(
        self,
        subject_type: str,
        subject_id: UUID | str,
        /,
        *,
        amount: Money,
        title: str,
        account: str,
        success_url: str,
        cancel_url: str | None = None,
        expires: Duration = 86400.0,
        lines: Sequence[Line] = (),
        email: str | None = None,
        locale: str | None = None,
        instalments: Instalments | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Page:
        """Return the page on which a subject is paid. A second call with the same amount and account returns the same
        page.

        A subject has at most one payable page: any other one is closed at the service. `page.url` works at once. Raises
        `PaymentPending` while the subject is being paid by a method that takes days.
        """
        tx, subject_id = self._tx, str(subject_id)
        subject = await self._subject(subject_type, subject_id)
        row = await self._account(account)
        _check(row["service"], amount, title, lines, expires, instalments)
        lasts = timedelta(seconds=in_seconds(expires))
        older = await tx.fetchrow(store.PAYABLE, subject_type, subject_id)
        if older is not None:
            if (page := await self._same_page(older, row, amount, instalments, lasts)) is not None:
                return page
            await tx.execute(SUPERSEDE, older["id"])
            await enqueue(tx, CLOSE, {"payment_id": older["id"]}, unique=f"close:{older['id']}:now")
        listed = [{"title": each.title, "amount": each.amount.amount, "quantity": each.quantity} for each in lines]
        added = await tx.fetchrow(
            store.INSERT,
            row["id"],
            subject.type,
            subject_id,
            amount.amount,
            amount.currency,
            title[:250],
            listed,
            dict(data or {}),
            email,
            locale,
            success_url,
            cancel_url or success_url,
            lasts,
            None,
            None if instalments is None else 1,
            False,
            None if tx.cause is None else tx.cause.id,
        )
        if instalments is not None:
            values = (instalments.count, instalments.months, instalments.grace_days)
            plan_id = await tx.fetchval(ADD_PLAN, added["id"], row["id"], *values)
            await store.change(tx, "payments", added["id"], plan_id=plan_id)
        closes = {"payment_id": added["id"]}
        await enqueue(tx, CLOSE, closes, unique=f"close:{added['id']}", run_at=added["expires_at"])
        return Page(payment_id=added["id"], url=self._registry.page_url(added["id"]), expires_at=added["expires_at"])

    async def _same_page(
        self, older: Row, account: Row, amount: Money, instalments: Instalments | None, lasts: timedelta
    ) -> Page | None:
        if older["status"] == "processing":
            raise PaymentPending(
                f"{older['subject_type']} {older['subject_id']} is being paid: if payment {older['id']} fails, it can "
                f"be paid again"
            )
        is_same = (
            older["account_id"] == account["id"]
            and store.money(older) == amount
            and (older["plan_id"] is None) == (instalments is None)
            and older["close_at"] > older["now"] + min(ALMOST_OVER, lasts / 2)
        )
        if not is_same:
            return None
        url = self._registry.page_url(older["id"])
        return Page(payment_id=older["id"], url=url, expires_at=older["expires_at"])

    async def close(self, subject_type: str, subject_id: UUID | str, /) -> bool:
        """Close the payable page of a subject. Money that arrives all the same is handed to `on_paid`."""
        await self._subject(subject_type, str(subject_id))
        row = await self._tx.fetchrow(store.PAYABLE, subject_type, str(subject_id))
        if row is None or row["status"] == "processing":
            return False
        await self._tx.execute(CLOSE_NOW, row["id"])
        await enqueue(self._tx, CLOSE, {"payment_id": row["id"]}, unique=f"close:{row['id']}:now")
        return True

    async def record(self, payment_id: UUID, /, *, amount: Money, reference: str) -> Payment:
        """Record money that came without a payment service: cash, or a bank transfer. `on_paid` runs at once.

        `reference` names the receipt, for example the line of a bank statement: the same one twice is one receipt, and
        another one is a second payment of the subject. Returns the payment that has the money. The charge is a hash of
        the reference, because people write names into it; `receipt` keeps its words until an erasure.
        """
        row = await self._lock(payment_id)
        if not is_by_hand(row["service"]):
            raise NotPayable(
                f"payment {row['id']} is paid at {row['service']}: only {row['service']} says what it received"
            )
        if amount.amount <= 0:
            raise NotPayable(f"amount {amount} must be above zero")
        if not 0 < len(reference.strip()) <= 100:
            raise NotPayable(f"reference {reference[:100]!r} must have 1 to 100 characters: it names the receipt")
        subject = self._registry.subject(row["subject_type"])
        receipt = reference.strip()
        charge = f"{row['id']}:{sha256(receipt.encode()).hexdigest()[:32]}"
        report = PaymentReport(state="paid", payment_id=row["id"], charge=charge, received=amount)
        await reports.apply_to(self._tx, subject, row, report)
        paid_id = await self._tx.fetchval(KEEP_RECEIPT, row["subject_type"], row["subject_id"], charge, receipt)
        return store.payment_of(await store.get(self._tx, paid_id))

    async def refund(
        self,
        payment: Payment | UUID,
        /,
        *,
        reason: str,
        amount: Money | None = None,
        percent: int | None = None,
        lines: Sequence[Any] = (),
        shares: Sequence[Share] = (),
        metadata: Mapping[str, str] | None = None,
        key: str | None = None,
        by: str = "app",
    ) -> Refund | None:
        """Refund a payment. Without an amount: all that remains at the service when the call arrives. None: nothing is
        left.

        `percent` is of what was paid, rounded down to an amount that the service takes. `lines` are for the app, which
        gets them in `on_refunded`. `shares` say from which accounts of the ledger the money comes; by default in
        proportion. `metadata` is stored with the refund at the service, for people who read its dashboard. The same
        `key` twice is one refund.
        """
        if amount is not None and percent is not None:
            raise ValueError("give amount or percent, not both")
        row = await self._lock(payment)
        if amount is not None and amount.currency != row["currency"]:
            raise NotPayable(f"payment {row['id']} is in {row['currency']}, not in {amount.currency}")
        refund = await refunds.request(
            self._tx,
            row,
            amount=None if amount is None else amount.amount,
            percent=percent,
            reason=reason,
            by=by,
            lines=lines,
            shares=shares,
            metadata=metadata,
            key=key,
        )
        return None if refund is None else store.refund_of(refund, row)

    async def refund_many(
        self,
        payments: Sequence[UUID],
        /,
        *,
        reason: str,
        percent: int | None = None,
        per_minute: int = 60,
        key: str | None = None,
        by: str = "app",
    ) -> RefundBatch:
        """Refund many payments by a job, `per_minute` of them each minute, each once. The same `key` twice is one
        batch.

        When the service has answered every call, accounting gets a report. `refund_batch` returns how it stands.
        """
        return await batches.add(
            self._tx, payments, reason=reason, percent=percent, per_minute=per_minute, key=key, by=by
        )

    async def refund_batch(self, batch_id: UUID, /, *, stop: bool = False) -> RefundBatch:
        """Return how many refunds at once stand. With `stop`, no further ones are asked for."""
        return await (batches.stop if stop else batches.report)(self._tx, batch_id)

    async def repeat(self, refund_id: UUID, /) -> Refund:
        """Ask the service again for a refund that failed, or whose call has stopped."""
        refund = await refunds.repeat(self._tx, refund_id)
        return store.refund_of(refund, await store.get(self._tx, refund["payment_id"]))

    async def settle(self, refund_id: UUID, /, *, note: str) -> Refund:
        """Record that the buyer got the money of a refund another way."""
        known = await self._tx.fetchrow(store.REFUND, refund_id)
        if known is None:
            raise NotFound(f"there is no refund {refund_id}")
        row = await self._lock(known["payment_id"])
        subject = self._registry.subject(row["subject_type"])
        refund = await refunds.settle(self._tx, subject, refund_id, note=note)
        return store.refund_of(refund, await store.get(self._tx, refund["payment_id"]))

    async def ask(self, payment_id: UUID, /) -> None:
        """Ask the service about a payment now, by a job: for the page that a buyer returns to before the webhook
        arrives."""
        await self._lock(payment_id)
        await enqueue(self._tx, ASK, {"kind": "payment", "id": payment_id}, unique=f"ask:payment:{payment_id}")

    async def end_plan(self, plan_id: UUID, /, *, now: bool = True) -> None:
        """End a plan of instalments: nothing more is collected. With `now=False` the paid period ends first."""
        await plans.end(self._tx, plan_id, how="now" if now else "with_period")

    # -- reading -------------------------------------------------------------------------------------------------
    # ------------

    async def get(self, payment_id: UUID, /) -> Payment | None:
        row = await store.get(self._tx, payment_id)
        return None if row is None else store.payment_of(row)

    async def of(self, subject_type: str, subject_id: UUID | str, /) -> list[Payment]:
        """Return all payments of a subject, oldest first."""
        rows = await self._tx.fetch(store.OF_SUBJECT, subject_type, str(subject_id))
        return [store.payment_of(row) for row in rows]

    async def refunds(self, payment_id: UUID, /) -> list[Refund]:
        """Return the refunds of a payment, oldest first."""
        row = await store.get(self._tx, payment_id)
        rows = await self._tx.fetch(store.REFUNDS, payment_id)
        return [store.refund_of(each, row) for each in rows]

    async def refundable(self, payment_id: UUID, /) -> int:
        """Return what can be refunded: no refund has taken it or is going to, and no dispute holds it."""
        return await refunds.refundable(self._tx, await self._lock(payment_id))

    # -- inside --------------------------------------------------------------------------------------------------
    # ------------

    @property
    def _registry(self) -> PaymentRegistry:
        return reports.registry_of(self._tx)

    async def _subject(self, subject_type: str, subject_id: str) -> Subject:
        subject = self._registry.subject(subject_type)
        if self._tx.organization is None:
            raise NotPayable("a payment belongs to an organization: open the transaction with one, or call tx.act_for")
        if subject.lock is not None:
            await subject.lock(self._tx, subject_id)
        return subject

    async def _account(self, name: str) -> Row:
        declared = self._registry.accounts.get(name)
        service, source = (None, None) if declared is None else (declared.service, declared.source)
        row = await store.account(self._tx, name, service=service, source=source)
        if row is None:
            raise UnknownAccount(
                f"there is no payment account {name!r}: declare it with app.payments.account({name!r}, ...),"
                " or add one of the organization"
            )
        return row

    async def _lock(self, payment: Payment | UUID) -> Row:
        payment_id = payment.id if isinstance(payment, Payment) else payment
        known = await store.get(self._tx, payment_id)
        if known is None:
            raise NotFound(f"there is no payment {payment_id}")
        subject = self._registry.subject(known["subject_type"])
        return await reports.lock(self._tx, subject, payment_id, known["subject_id"])


def _check(
    service_name: str,
    amount: Money,
    title: str,
    lines: Sequence[Line],
    expires: Duration,
    instalments: Instalments | None,
) -> None:
    service = service_class(service_name)
    if amount.amount <= 0:
        raise NotPayable(f"amount {amount} must be above zero: a subject that costs nothing needs no payment")
    if not service.amounts.takes(amount.currency):
        raise NotPayable(f"{service.title} does not accept {amount.currency}")
    if amount.amount % (step := service.amounts.step(amount.currency)):
        raise NotPayable(f"amount {amount.amount} {amount.currency}: {service.title} takes multiples of {step} only")
    if lines and sum(each.amount.amount for each in lines) != amount.amount:
        raise NotPayable(f"the lines add up to {sum(each.amount.amount for each in lines)}, not to {amount.amount}")
    if not title.strip():
        raise NotPayable("title is empty: the buyer reads it on the page")
    if not 60 <= in_seconds(expires) <= LONGEST_S:
        raise NotPayable(f"expires is {in_seconds(expires):.0f} s: it must be between a minute and 400 days")
    if instalments is not None and not service.takes_instalments:
        raise NotPayable(f"{service.title} takes no instalments")
