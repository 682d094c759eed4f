"""Payments: one machine for pages, refunds, disputes, instalments, reconciliation and the ledger (docs/payments.md)."""
