"""What the machine refuses, and why."""

from __future__ import annotations

from onceward.errors import OncewardError


class PaymentError(OncewardError):
    """The base of what this package raises."""


class UnknownAccount(PaymentError):
    """No account has this name."""


class UnknownSubject(PaymentError):
    """No app of this process declares the subject type with `@app.payments.on_paid`."""


class NotFound(PaymentError):
    """The organization has no such payment or refund."""


class NotPayable(PaymentError):
    """A page cannot be opened: the amount, the currency or the time is not possible."""


class PaymentPending(PaymentError):
    """The subject is being paid by a method that takes days. Another page would take the money twice."""


class NotRefundable(PaymentError):
    """The refund is not possible: nothing is left, more than is left, or not a multiple of the currency's step."""


class BooksDiffer(PaymentError):
    """Several apps of this process keep books with different accounts for the cash at a service."""
