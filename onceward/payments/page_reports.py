"""Apply what a service says about a page or its charge: open, approved, processing, paid, declined, expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from onceward.ledger import named_errors
from onceward.money import Money
from onceward.work import Permanent

from . import booking, positions, refunds, store
from .declarations import Subject
from .errors import PaymentError
from .job_queue import CAPTURE, CLOSE, enqueue
from .model import ENDED_UNPAID, UNPAID, Accept, Books, Payment, Return, Share
from .service import PaymentReport

Row = Any

FORGET_PAGE = """
update onceward.payments set page = null, page_url = null, page_expires_at = null, page_asked_at = null,
       page_number = page_number + 1
 where id = $1
"""
RETURNED = {
    "wrong_currency": "A payment in another currency than asked for goes back to the buyer",
    "erased": "A payment of a person who was erased goes back to the buyer",
}


class Decided(str):
    """`paid` or `returned`, with the result that the app gives to the webhook, and reports that came too early."""

    __slots__ = ("early", "result")
    result: Any
    early: Sequence[Mapping[str, Any]]

    @classmethod
    def by(cls, answer: Accept | Return, early: Sequence[Mapping[str, Any]] | None) -> Decided:
        decided = cls("paid" if isinstance(answer, Accept) else "returned")
        decided.result, decided.early = answer.result, early or ()
        return decided


async def apply(tx: Any, subject: Subject, row: Row, report: PaymentReport, *, event_id: str | None = None) -> str:
    """Move a payment to what the report says. The caller has locked it. Return what happened, in one word."""
    is_new_money = report.state == "paid" and report.subscription is None and row["received"] == 0
    if not is_new_money:  # `receive` names it together with the money
        await store.name_payment(tx, row, names_of(report))
    match report.state:
        case "open":
            return await _opened(tx, row, report)
        case "approved":
            return await _approved(tx, row, report)
        case "processing":
            return await _processing(tx, subject, row, report)
        case "paid":
            if report.subscription is not None:
                return "subscribed"
            return await receive(tx, subject, row, report, event_id=event_id)
        case "declined":
            return await _declined(tx, subject, row, report)
        case "expired":
            return await _expired(tx, subject, row, report)
        case _:
            assert_never(report.state)


def names_of(report: PaymentReport) -> list[str]:
    """Return the ids by which the service calls what the report is about."""
    names = (report.charge, report.page, report.subscription, *report.names)
    return [each for each in dict.fromkeys(names) if each]


async def _opened(tx: Any, row: Row, report: PaymentReport) -> str:
    if row["status"] != "created" or row["superseded_at"] is not None:
        return "known"
    await store.change(tx, "payments", row["id"], status="open", page=report.page or row["page"])
    return "opened"


async def _approved(tx: Any, row: Row, report: PaymentReport) -> str:
    """Take the money of an approved page, unless the page must not be paid any more."""
    if row["status"] not in ("created", "open") or row["superseded_at"] is not None or row["close_at"] <= row["now"]:
        return "not captured"
    page = report.page or row["page"]
    if page is None:
        raise PaymentError(f"payment {row['id']}: the service reports an approved page without its id")
    await enqueue(tx, CAPTURE, {"payment_id": row["id"], "page": page}, unique=f"{row['id']}:{page}")
    return "will be captured"


async def _processing(tx: Any, subject: Subject, row: Row, report: PaymentReport) -> str:
    if row["status"] not in ("created", "open", *ENDED_UNPAID):
        return "known"
    await store.change(
        tx, "payments", row["id"], status="processing", page=report.page or row["page"], ended_at=None, asks=0,
        ask_at=row["now"],
    )  # fmt: skip
    await _run(tx, subject, "on_processing", row)
    return "processing"


async def _declined(tx: Any, subject: Subject, row: Row, report: PaymentReport) -> str:
    if row["status"] not in UNPAID:
        return "known"
    failure = (report.failure or "declined")[:100]
    if report.is_open or (report.page is not None and row["page"] is not None and report.page != row["page"]):
        await store.change(tx, "payments", row["id"], failure=failure)
        await _run(tx, subject, "on_declined", row)
        return "declined"
    return await end_unpaid(tx, subject, row, "failed", failure=failure)


async def _expired(tx: Any, subject: Subject, row: Row, report: PaymentReport) -> str:
    if row["status"] not in UNPAID or (
        report.page is not None and row["page"] is not None and report.page != row["page"]
    ):
        return "known"
    if row["close_at"] > row["now"] and row["superseded_at"] is None and row["status"] != "processing":
        # The service's page has ended and the payment has not: the next visit opens another page.
        await tx.execute(FORGET_PAGE, row["id"])
        return "page ended"
    return await end_unpaid(tx, subject, row, "expired")


async def end_unpaid(tx: Any, subject: Subject, row: Row, status: str, *, failure: str | None = None) -> str:
    """End a payment that got no money, and tell the app, unless another page of the subject has taken its place."""
    await store.change(
        tx,
        "payments",
        row["id"],
        status=status,
        failure=failure or row["failure"],
        closed_at=row["now"],
        ended_at=row["now"],
        ask_at=None,
    )
    if row["superseded_at"] is None:
        await _run(tx, subject, "on_unpaid", row)
    return status


async def receive(tx: Any, subject: Subject, row: Row, report: PaymentReport, *, event_id: str | None = None) -> str:
    """Record money that arrived, once per charge, and let the app accept or return it."""
    if report.charge is None or report.received is None:
        raise PaymentError(f"payment {row['id']}: the service reports it as paid without its charge or amount")
    if row["received"] > 0:
        if row["charge"] == report.charge:
            return await _known(tx, subject, row, report)
        row = await _second(tx, row, report.charge, report.names)
        if row["received"] > 0:
            return "known"
    before = row["status"]
    received = report.received
    answer: Accept | Return | None = None
    if received.currency != row["currency"]:
        answer = Return("wrong_currency")
    elif row["erased_at"] is not None:
        answer = Return("erased")
    if answer is not None and "on_returned" not in subject.hooks:
        await _tell(tx, row, received, answer.reason)
    row = await _store(tx, row, report, received, returned=answer is not None)
    payment = replace(store.payment_of(row), decision=None, is_late=before in ENDED_UNPAID, event_id=event_id)
    if answer is None:
        answer = await _ask_app(tx, subject, payment)
    elif (hook := subject.hooks.get("on_returned")) is not None:
        payment = replace(payment, decision="returned", reason=answer.reason)
        answer = Return(answer.reason, await hook(payment, tx))
    row = await _decide(tx, subject.books, row, answer, _shares(subject, row, answer), names_of(report))
    if isinstance(answer, Return):
        await refunds.request(tx, row, amount=None, reason=answer.reason, by="payments", key="return")
    for other in row["replaced"] or ():  # the subject is paid: nobody should pay it on another page
        await enqueue(tx, CLOSE, {"payment_id": other}, unique=f"close:{other}:now")
    return Decided.by(answer, row["early"])


async def _decide(
    tx: Any,
    books: Books | None,
    row: Row,
    answer: Accept | Return,
    shares: Sequence[Share] | None,
    names: Sequence[str],
) -> Row:
    """Write decision, shares and journals in one statement."""
    decision = "returned" if isinstance(answer, Return) else "accepted"
    reason = answer.reason if isinstance(answer, Return) else None
    listed = [] if shares is None or books is None else [(each.account, each.amount) for each in shares]
    used, journals = booking.as_json(booking.books_of(books, row), booking.received(books, row, shares))
    with named_errors():
        decided = await tx.fetchrow(store.DECIDE, row["id"], decision, reason, listed, used, journals, names)
    return store.merged(row, decided)


async def _tell(tx: Any, row: Row, received: Money, reason: str) -> None:
    """Report money that goes back without a decision of the app."""
    details = {"payment": str(row["id"]), "amount": str(received), row["subject_type"]: row["subject_id"]}
    await tx.notify_admins("PAYMENT_RETURNED", "warn", RETURNED[reason], details, audience="accounting")


async def _known(tx: Any, subject: Subject, row: Row, report: PaymentReport) -> str:
    # What the balance says about the fee is newer than any report.
    if report.fee is not None and report.fee.amount != row["fee"] and row["fee_read_at"] is None:
        await store.change(tx, "payments", row["id"], fee=report.fee.amount)
        await positions.update(tx, subject.books, await store.get(tx, row["id"]))
    return "known"


async def _second(tx: Any, row: Row, charge: str, names: Sequence[str]) -> Row:
    """Return a payment of its own for a second charge: an older page of the same payment was paid as well."""
    known = await tx.fetchval(
        "select id from onceward.payments where organization_id = $1 and subject_type = $2 and subject_id = $3"
        " and charge = $4",
        row["organization_id"],
        row["subject_type"],
        row["subject_id"],
        charge,
    )
    if known is None:
        known = await tx.fetchval(COPY, row["id"])
        await tx.execute(
            "update onceward.payment_names set payment_id = $3 where account_id = $1 and name = any ($2)",
            row["account_id"],
            [charge, *names],
            known,
        )
    return await store.lock(tx, known)


COPY = """
insert into onceward.payments (account_id, subject_type, subject_id, amount, currency, title, data, email, locale,
       success_url, cancel_url, erased_at, expires_at, close_at, closed_at, superseded_at, status, page, ended_at)
select account_id, subject_type, subject_id, amount, currency, title, data, email, locale,
       success_url, cancel_url, erased_at, expires_at, onceward.now(), onceward.now(), onceward.now(), 'expired', null,
       onceward.now()
  from onceward.payments where id = $1
returning id
"""


async def _store(tx: Any, row: Row, report: PaymentReport, received: Money, *, returned: bool) -> Row:
    """Record the money and the names of its charge. The decision is that of the machine until the app has decided."""
    money = {
        "charge": report.charge,
        "amount": received.amount,
        "currency": received.currency,
        "fee": 0 if report.fee is None else report.fee.amount,
        "page": report.page,
    }
    decision = "returned" if returned else "accepted"
    return store.merged(row, await tx.fetchrow(store.RECEIVE, row["id"], money, names_of(report), decision))


async def _ask_app(tx: Any, subject: Subject, payment: Payment) -> Accept | Return:
    hook = subject.hooks.get("on_paid")
    if hook is None:
        raise Permanent(f"{subject.type!r} has no @app.payments.on_paid: nobody decides about payment {payment.id}")
    answer = await hook(payment, tx)
    if not isinstance(answer, Accept | Return):
        raise Permanent(
            f"on_paid({subject.type!r}) returned {type(answer).__name__}: return Accept(...) or Return(reason)"
        )
    return answer


def _shares(subject: Subject, row: Row, answer: Accept | Return) -> Sequence[Share] | None:
    """Return the shares of an accepted payment, which must add up to what was paid. None: the money goes back."""
    if isinstance(answer, Return):
        return None
    if not answer.shares:
        return [] if subject.books is None else [Share(subject.books.revenue, row["received"])]
    total = sum(each.amount for each in answer.shares)
    if total != row["received"]:
        raise Permanent(
            f"on_paid({subject.type!r}) accepted payment {row['id']} with shares of {total}, but {row['received']} was"
            " paid: the shares must add up"
        )
    return answer.shares


async def _run(tx: Any, subject: Subject, name: str, row: Row) -> None:
    if (hook := subject.hooks.get(name)) is not None:
        await hook(store.payment_of(await store.get(tx, row["id"])), tx)
