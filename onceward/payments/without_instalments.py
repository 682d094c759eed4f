"""What a payment service answers about invoices and subscriptions if it takes no instalments: there are none."""

from __future__ import annotations

from onceward.payments.service import Failure, InvoiceReport, SubscriptionReport
from onceward.services.outcome import Absent


class WithoutInstalments:
    """The part of `PaymentService` for instalments, of a service that takes none."""

    __slots__ = ()

    async def read_invoice(self, reference: str) -> InvoiceReport | Absent | Failure:
        return Absent()

    async def list_invoices(self, subscription: str) -> tuple[InvoiceReport, ...] | Absent | Failure:
        return Absent()

    async def read_subscription(self, reference: str) -> SubscriptionReport | Absent | Failure:
        return Absent()

    async def end_subscription(
        self, reference: str, *, key: str, with_period: bool
    ) -> SubscriptionReport | Absent | Failure:
        return Absent()
