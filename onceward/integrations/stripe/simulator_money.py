"""Refunds, disputes, payouts and balance transactions of the Stripe simulator, and what banks do to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiohttp import web

from onceward.integrations.stripe.amounts import from_stripe
from onceward.integrations.stripe.simulator_balance import DISPUTE_FEE, Balance
from onceward.integrations.stripe.simulator_objects import Json, StripeError, get_object, make_id, now
from onceward.integrations.stripe.simulator_requests import DEFAULT_RETRY_DELAYS_S, StripeRequests

INQUIRY = ("warning_needs_response", "warning_under_review")
OPEN_DISPUTE = ("needs_response", "under_review")
"""The states in which the bank only asks: it has taken no money, and the charge can be refunded."""


class StripeMoney(StripeRequests):
    """What happens to money after it was paid."""

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__(retry_delays_s=retry_delays_s)
        self.balance = Balance()

    def money_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/balance", self.reading(self._balance)),
            web.post("/v1/refunds", self.keyed(self._create_refund)),
            web.get("/v1/refunds", self.reading(self._list_refunds)),
            web.get("/v1/refunds/{id}", self.reading(self._refund)),
            web.get("/v1/disputes", self.reading(self._list_disputes)),
            web.get("/v1/disputes/{id}", self.reading(self._dispute)),
            web.get("/v1/charges", self.reading(self._list_charges)),
            web.get("/v1/charges/{id}", self.reading(self._charge)),
            web.get("/v1/payouts", self.reading(lambda request: self.page(self.balance.payouts.values(), request))),
            web.get("/v1/payouts/{id}", self.reading(self._payout)),
            web.get("/v1/balance_transactions", self.reading(self._list_transactions)),
            web.get("/v1/balance_transactions/{id}", self.reading(self._transaction)),
        ]

    def _balance(self, _: web.Request) -> Json:
        return {"object": "balance", "available": [], "livemode": False, "pending": []}

    # Refunds.

    def _create_refund(self, _: web.Request, fields: Json) -> Json:
        refund, charge = self.books.refund(fields)
        moved = self.balance.move(self.books, source=refund, type="refund", amount=-refund["amount"])
        refund["balance_transaction"] = moved["id"]
        if refund["status"] in ("failed", "canceled"):
            self._return_refund(refund)
        self.emit("refund.created", refund)
        self.emit("charge.refunded", charge)
        if charge["refunded"]:
            self._end_inquiries(charge)
        return refund

    def _return_refund(self, refund: Json) -> None:
        back = self.balance.move(self.books, source=refund, type="refund_failure", amount=refund["amount"])
        refund["failure_balance_transaction"] = back["id"]

    def move_refund(self, refund_id: str, status: str, *, failure_reason: str = "unknown") -> Json:
        """Change the status of a refund, as Stripe or the bank does, and send the webhooks."""
        refund = self.act_on(self.books.refunds, refund_id, "refund")
        before = refund["status"]
        self.books.move_refund(refund, status, failure_reason=failure_reason)
        if status in ("failed", "canceled"):
            self._return_refund(refund)
        # Stripe sends each of these event types for one change.
        self.emit("refund.updated", refund, previous={"status": before})
        self.emit("charge.refund.updated", refund, previous={"status": before})
        if status == "failed":
            self.emit("refund.failed", refund)
        return refund

    def _list_refunds(self, request: web.Request) -> Json:
        return self.page(_about_payment(self.books.refunds.values(), request), request)

    def _refund(self, request: web.Request) -> Json:
        return get_object(self.books.refunds, request.match_info["id"], "refund")

    # Disputes.

    def open_dispute(
        self, payment_intent: str, *, amount: int | None = None, reason: str = "fraudulent", inquiry: bool = False
    ) -> Json:
        """Open a dispute: the buyer's bank takes the money back. With `inquiry` it only asks, and takes nothing."""
        intent = self.act_on(self.books.intents, payment_intent, "payment_intent")
        charge = self.books.charges[intent["latest_charge"]]
        if charge["disputed"]:
            raise StripeError(f"Charge {charge['id']} is already disputed.", code="charge_disputed")
        dispute: Json = {
            "id": make_id("du"),
            "object": "dispute",
            "amount": charge["amount_captured"] - charge["amount_refunded"] if amount is None else amount,
            "balance_transactions": [],
            "charge": charge["id"],
            "created": now(),
            "currency": charge["currency"],
            "evidence_details": {"due_by": now() + 9 * 86400, "has_evidence": False, "past_due": False},
            "is_charge_refundable": True,
            "livemode": False,
            "metadata": {},
            "payment_intent": charge["payment_intent"],
            "reason": reason,
            "status": "warning_needs_response" if inquiry else "needs_response",
        }
        self.books.keep(self.books.disputes, dispute)
        charge["disputed"] = True
        if inquiry:
            self.emit("charge.dispute.created", dispute)
        else:
            self._withdraw(dispute)
            self.emit("charge.dispute.created", dispute)
            self.emit("charge.dispute.funds_withdrawn", dispute)
        return dispute

    def dispute(self, charge: str, *, inquiry: bool = False) -> str:
        """Open a dispute and return its id, as the simulator of every payment service does."""
        return self.open_dispute(charge, inquiry=inquiry)["id"]

    def returned(self, charge: str) -> int:
        """Return what went back to the buyer by refunds, in our units."""
        refunds = [each for each in self.books.refunds.values() if each["payment_intent"] == charge]
        return sum(from_stripe(each["amount"], each["currency"]) for each in refunds if each["status"] == "succeeded")

    def escalate_dispute(self, dispute_id: str) -> Json:
        """Turn an inquiry into a dispute: the bank takes what was not refunded until now."""
        dispute = self.act_on(self.books.disputes, dispute_id, "dispute")
        if dispute["status"] not in INQUIRY:
            raise StripeError(f"Dispute {dispute_id} is not an inquiry: its status is {dispute['status']}.")
        charge, before = self.books.charges[dispute["charge"]], dispute["status"]
        dispute["amount"] = min(dispute["amount"], charge["amount_captured"] - charge["amount_refunded"])
        dispute["status"] = "needs_response"
        self._withdraw(dispute)
        self.emit("charge.dispute.updated", dispute, previous={"status": before})
        self.emit("charge.dispute.funds_withdrawn", dispute)
        return dispute

    def answer_dispute(self, dispute_id: str) -> Json:
        """Submit evidence, as a person does in the dashboard."""
        dispute = self.act_on(self.books.disputes, dispute_id, "dispute")
        self._require_undecided(dispute)
        before = dispute["status"]
        dispute["status"] = "warning_under_review" if before in INQUIRY else "under_review"
        self.emit("charge.dispute.updated", dispute, previous={"status": before})
        return dispute

    def close_dispute(self, dispute_id: str, *, won: bool) -> Json:
        """Close a dispute. If it is won, the money comes back without the fee. An inquiry just closes."""
        dispute = self.act_on(self.books.disputes, dispute_id, "dispute")
        if dispute["status"] in INQUIRY:
            self._close_inquiry(dispute)
            return dispute
        self._require_undecided(dispute)
        dispute["status"] = "won" if won else "lost"
        if won:
            dispute["is_charge_refundable"] = True
            self.books.charges[dispute["charge"]]["disputed"] = False
            back = self.balance.move(
                self.books, source=dispute, type="adjustment", amount=dispute["amount"], category="dispute_reversal"
            )
            dispute["balance_transactions"].append(back)
        self.emit("charge.dispute.closed", dispute)
        if won:
            self.emit("charge.dispute.funds_reinstated", dispute)
        return dispute

    def _require_undecided(self, dispute: Json) -> None:
        if dispute["status"] not in (*INQUIRY, *OPEN_DISPUTE):
            raise StripeError(f"Dispute {dispute['id']} is closed: its status is {dispute['status']}.")

    def _withdraw(self, dispute: Json) -> None:
        taken = self.balance.move(
            self.books,
            source=dispute,
            type="adjustment",
            amount=-dispute["amount"],
            fee=DISPUTE_FEE,
            category="dispute",
        )
        dispute["balance_transactions"].append(taken)
        dispute["is_charge_refundable"] = False

    def _close_inquiry(self, dispute: Json) -> None:
        dispute["status"] = "warning_closed"
        self.books.charges[dispute["charge"]]["disputed"] = False
        self.emit("charge.dispute.closed", dispute)

    def _end_inquiries(self, charge: Json) -> None:
        """Close the inquiry about a charge that was refunded in full."""
        for dispute in self.books.disputes.values():
            if dispute["charge"] == charge["id"] and dispute["status"] in INQUIRY:
                self._close_inquiry(dispute)

    def _list_disputes(self, request: web.Request) -> Json:
        return self.page(_about_payment(self.books.disputes.values(), request), request)

    def _dispute(self, request: web.Request) -> Json:
        return get_object(self.books.disputes, request.match_info["id"], "dispute")

    # Charges and the balance.

    def _charge(self, request: web.Request) -> Json:
        return self._with_transaction(get_object(self.books.charges, request.match_info["id"], "charge"), request)

    def _list_charges(self, request: web.Request) -> Json:
        found = self.page(_about_payment(self.books.charges.values(), request), request)
        return {**found, "data": [self._with_transaction(each, request) for each in found["data"]]}

    def _with_transaction(self, charge: Json, request: web.Request) -> Json:
        expands = any("balance_transaction" in value for name, value in request.query.items() if "expand" in name)
        transaction = self.balance.transactions.get(charge["balance_transaction"] or "")
        return {**charge, "balance_transaction": transaction} if expands and transaction else charge

    def pay_out(self, currency: str, *, account: str | None = None) -> Json:
        """Send the balance to the bank. The payout is on its way until `end_payout`."""
        self.books.account = account
        payout = self.balance.pay_out(self.books, currency.lower())
        self.emit("payout.created", payout)
        return payout

    def end_payout(self, payout_id: str, *, failure_code: str | None = None) -> Json:
        """Let a payout arrive, or with a failure code come back (`account_closed`)."""
        payout = self.act_on(self.balance.payouts, payout_id, "payout")
        if failure_code is None:
            payout["status"] = "paid"
            self.emit("payout.paid", payout)
        else:
            self.balance.fail_payout(self.books, payout, code=failure_code)
            self.emit("payout.failed", payout)
        return payout

    def _payout(self, request: web.Request) -> Json:
        return get_object(self.balance.payouts, request.match_info["id"], "payout")

    def _transaction(self, request: web.Request) -> Json:
        return get_object(self.balance.transactions, request.match_info["id"], "balance_transaction")

    def _list_transactions(self, request: web.Request) -> Json:
        query = request.query
        found = [
            each
            for each in self.balance.transactions.values()
            if query.get("payout") in (None, self.balance.paid_out.get(each["id"]))
            and query.get("source") in (None, each["source"])
            and query.get("type") in (None, each["type"])
        ]
        page = self.page(found, request)
        if any(value == "data.source" for name, value in query.items() if name.startswith("expand")):
            return {**page, "data": [{**each, "source": self._source(each["source"])} for each in page["data"]]}
        return page

    def _source(self, object_id: str) -> Json | str:
        for objects in (self.books.charges, self.books.refunds, self.books.disputes, self.balance.payouts):
            if object_id in objects:
                return objects[object_id]
        return object_id


def _about_payment(objects: Iterable[Json], request: web.Request) -> list[Json]:
    """Return the objects about the payment intent or the charge of a query."""
    return [
        each
        for each in objects
        if request.query.get("payment_intent") in (None, each["payment_intent"])
        and request.query.get("charge") in (None, each.get("charge"))
    ]
