"""The balance of the Stripe simulator: what each payment, refund, dispute and payout moved, with Stripe's fees."""

from __future__ import annotations

from dataclasses import dataclass, field

from onceward.integrations.stripe.amounts import multiple
from onceward.integrations.stripe.simulator_objects import Books, Json, StripeError, make_id, now

FEE_THOUSANDTHS = 29
"""Stripe's fee of a payment: 2.9 percent and a fixed part."""
FEE_FIXED = 30
DISPUTE_FEE = 1500
# Charges may have decimals in these currencies, payouts may not.
_WHOLE_PAYOUTS = {"huf": 100, "twd": 100, "isk": 100, "ugx": 100}


@dataclass(slots=True)
class Balance:
    """Balance transactions and payouts by id."""

    transactions: dict[str, Json] = field(default_factory=dict[str, Json])
    payouts: dict[str, Json] = field(default_factory=dict[str, Json])
    # The payout of each transaction that was paid out. A transaction's JSON does not contain it.
    paid_out: dict[str, str] = field(default_factory=dict[str, str])
    # What was too small for a payout in whole units, by currency.
    rests: dict[str, int] = field(default_factory=dict[str, int])

    def move(
        self, books: Books, *, source: Json, type: str, amount: int, fee: int = 0, category: str | None = None
    ) -> Json:
        """Record a change of the balance. `amount` is positive if the account receives money."""
        currency = source["currency"]
        details = {"amount": fee, "application": None, "currency": currency, "description": "Stripe processing fees"}
        transaction: Json = {
            "id": make_id("txn"),
            "object": "balance_transaction",
            "amount": amount,
            "available_on": now(),
            "created": now(),
            "currency": currency,
            "description": None,
            "exchange_rate": None,
            "fee": fee,
            "fee_details": [{**details, "type": "stripe_fee"}] if fee else [],
            "net": amount - fee,
            "reporting_category": category or type,
            "source": source["id"],
            "status": "available",
            "type": type,
        }
        books.keep(self.transactions, transaction)
        return transaction

    def charge(self, books: Books, charge: Json) -> None:
        """Record a captured payment with its fee, which is rounded up to what the currency allows."""
        amount, step = charge["amount_captured"], multiple(charge["currency"])
        fee = -(-amount * FEE_THOUSANDTHS // 1000) + FEE_FIXED
        fee = min(amount, -(-fee // step) * step)
        transaction = self.move(books, source=charge, type="charge", amount=amount, fee=fee)
        charge["balance_transaction"] = transaction["id"]

    def pay_out(self, books: Books, currency: str) -> Json:
        """Pay out everything that was not paid out yet, as an automatic payout does."""
        parts = [
            each
            for each in self.transactions.values()
            if each["currency"] == currency
            and each["id"] not in self.paid_out
            and books.owners.get(each["id"]) == books.account
        ]
        rest_of = f"{books.account or ''}:{currency}"
        net = sum(each["net"] for each in parts) + self.rests.get(rest_of, 0)
        amount = net - net % _WHOLE_PAYOUTS.get(currency, multiple(currency))
        if amount <= 0:
            raise StripeError(f"There is nothing to pay out in {currency}.", code="balance_insufficient")
        payout: Json = {
            "id": make_id("po"),
            "object": "payout",
            "amount": amount,
            "arrival_date": now(),
            "automatic": True,
            "balance_transaction": None,
            "created": now(),
            "currency": currency,
            "description": "STRIPE PAYOUT",
            "failure_balance_transaction": None,
            "failure_code": None,
            "failure_message": None,
            "livemode": False,
            "metadata": {},
            "method": "standard",
            "reconciliation_status": "completed",
            "status": "in_transit",
            "type": "bank_account",
        }
        books.keep(self.payouts, payout)
        own = self.move(books, source=payout, type="payout", amount=-amount)
        payout["balance_transaction"] = own["id"]
        self.rests[rest_of] = net - amount
        for each in (*parts, own):
            self.paid_out[each["id"]] = payout["id"]
        return payout

    def fail_payout(self, books: Books, payout: Json, *, code: str) -> None:
        """Return the money of a payout to the balance, as Stripe does if the bank refuses it."""
        back = self.move(books, source=payout, type="payout_failure", amount=payout["amount"])
        payout.update(status="failed", failure_code=code, failure_balance_transaction=back["id"])
