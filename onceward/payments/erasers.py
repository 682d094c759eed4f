"""Erasure meets money: the address goes, open pages close, plans end, and money that arrives later is returned.

Amounts, states and the ids of the service stay: they are the books.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.trust.erase import Eraser, Found, Person

END_PLANS = """
update onceward.payment_plans set end_how = 'now', status = case when status = 'completed' then status else 'ending'
end,
       ask_at = onceward.now(), asks = 0
 where ended_at is null and payment_id in (select id from onceward.payments where id = any ($1::uuid[]) or plan_id in
       (select plan_id from onceward.payments where id = any ($1::uuid[])))
"""


async def end_plans(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """End the plans of the person at the service: the reconciliation does it after the commit, and closes the open
    pages."""
    await tx.execute(END_PLANS, [each.key for each in found])


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="payments",
        table="onceward.payments",
        columns={"email": "whole", "title": "text", "lines": "json", "data": "json", "receipt": "text"},
        blank={
            "email": "null",
            "receipt": "null",
            "title": "'erased'",
            "lines": "'[]'::jsonb",
            "data": "'{}'::jsonb",
            "success_url": "null",
            "cancel_url": "null",
            "page_url": "null",
            "erased_at": "onceward.now()",
            "close_at": "least(t.close_at, onceward.now() - interval '1 minute')",
            "ask_at": "case when t.ask_at is not null then onceward.now() end",
        },
        together=True,
        then=end_plans,
        key="t.id",
        linked="lower(t.email) = any($2)",
    ),
    Eraser(
        name="refunds",
        table="onceward.payment_refunds",
        columns={
            "reason": "text",
            "note": "text",
            "lines": "json",
            "metadata": "json",
            "requested_by": "whole",
            "key": "text",
        },
        blank={
            "reason": "'erased'",
            "note": "null",
            "lines": "'[]'::jsonb",
            "metadata": "'{}'::jsonb",
            "requested_by": "m.mark",
            "key": "null",
        },
    ),
    Eraser(
        name="refund batches",
        table="onceward.payment_refund_batches",
        columns={"reason": "text", "requested_by": "whole", "key": "text"},
        blank={"reason": "'erased'", "requested_by": "m.mark", "key": "null"},
    ),
    Eraser(
        name="refunds that were not possible",
        table="onceward.payment_refund_items",
        columns={"why": "text"},
        blank={"why": "'erased'"},
    ),
)

_SERVICE = "an id or a code of the payment service"
_OURS = "one of our own words, not a person's"

UNSEARCHED: dict[str, str] = {
    **dict.fromkeys(
        [
            "onceward.payments.page",
            "onceward.payments.charge",
            "onceward.payments.failure",
            "onceward.payment_names.name",
            "onceward.payment_refunds.reference",
            "onceward.payment_refunds.earlier",
            "onceward.payment_refunds.failure",
            "onceward.payment_disputes.reference",
            "onceward.payment_disputes.reason",
            "onceward.payment_plans.subscription",
            "onceward.payment_payouts.reference",
            "onceward.payment_fees.reference",
            "onceward.payment_early.charge",
            "onceward.payment_early.reference",
            "onceward.payment_early.fact",
            "onceward.payment_accounts.connected_account",
            "onceward.payment_accounts.cursor",
            "onceward.payment_differences.reference",
        ],
        _SERVICE,
    ),
    **dict.fromkeys(
        [
            "onceward.payments.subject_type",
            "onceward.payments.subject_id",
            "onceward.payments.currency",
            "onceward.payments.locale",
            "onceward.payments.success_url",
            "onceward.payments.cancel_url",
            "onceward.payments.page_url",
            "onceward.payments.decided_reason",
            "onceward.payment_accounts.name",
            "onceward.payment_accounts.service",
            "onceward.payment_accounts.source",
            "onceward.payment_shares.code",
            "onceward.payment_refunds.currency",
            "onceward.payment_refunds.shares",
            "onceward.payment_refunds.why",
            "onceward.payment_disputes.currency",
            "onceward.payment_journals.kind",
            "onceward.payment_journals.cash_code",
            "onceward.payment_payouts.currency",
            "onceward.payment_fees.currency",
            "onceward.payment_accounts.checked",
            "onceward.payment_differences.kind",
            "onceward.payment_differences.detail",
        ],
        _OURS,
    ),
}
