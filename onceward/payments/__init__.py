"""Payments: one machine for pages, refunds, disputes, instalments, reconciliation and the ledger (docs/payments.md)."""

from .model import (
    Accept,
    Books,
    Dispute,
    Instalment,
    Instalments,
    Page,
    Payment,
    Refund,
    Return,
    Share,
)
from .service import Line, PaymentService

__all__ = [
    "Accept",
    "Books",
    "Dispute",
    "Instalment",
    "Instalments",
    "Line",
    "Page",
    "Payment",
    "PaymentService",
    "Refund",
    "Return",
    "Share",
]
