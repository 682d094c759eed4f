"""How each table of the feature `payments` is bounded, or why it is kept."""

from __future__ import annotations

_MONEY = "kept: money"

GROWTH: dict[str, str] = {
    "onceward.payment_accounts": "kept: one row for each account at a payment service",
    "onceward.payments": _MONEY,
    "onceward.payment_names": "kept: by which ids the service calls a payment",
    "onceward.payment_shares": _MONEY,
    "onceward.payment_refunds": _MONEY,
    "onceward.payment_refund_batches": _MONEY,
    "onceward.payment_refund_items": _MONEY,
    "onceward.payment_disputes": _MONEY,
    "onceward.payment_plans": _MONEY,
    "onceward.payment_journals": _MONEY,
    "onceward.payment_payouts": _MONEY,
    "onceward.payment_fees": _MONEY,
    "onceward.payment_early": "deleted 30 days after the report, by `payment reconciliation`",
    "onceward.payment_differences": "kept: one row for each difference that was found",
}
