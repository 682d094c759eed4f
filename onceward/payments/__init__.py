"""Payments: one machine for pages, refunds, disputes, instalments, reconciliation and the ledger (docs/payments.md)."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.payments.errors import PaymentError, PaymentPending
    from onceward.payments.model import (
        Accept,
        Books,
        Dispute,
        Instalment,
        Instalments,
        Page,
        Payment,
        Refund,
        RefundBatch,
        Return,
        Share,
    )
    from onceward.payments.service import Line, PaymentService

__all__ = [
    "Accept",
    "Books",
    "Dispute",
    "Instalment",
    "Instalments",
    "Line",
    "Page",
    "Payment",
    "PaymentError",
    "PaymentPending",
    "PaymentService",
    "Refund",
    "RefundBatch",
    "Return",
    "Share",
]

__getattr__ = lazy(__name__, __file__)
