"""Refunds, disputes and the balance of the PayPal simulator, and what buyers, banks and PayPal do to them."""

from __future__ import annotations

import secrets
from decimal import ROUND_UP, Decimal

from aiohttp import web

from onceward.integrations.paypal.amounts import to_decimal, to_minor
from onceward.integrations.paypal.simulator_requests import Json, PayPalRequests, iso_now, unprocessable
from onceward.testing.simulators.server import part

FEE_SHARE, FEE_FIXED = Decimal("0.0349"), Decimal("0.49")
CHARGEBACK_FEE = Decimal(20)
_HOLD, _RELEASE, _CHARGEBACK, _CHARGEBACK_FEE = "T1110", "T1111", "T1201", "T0106"
_PAYMENT, _REFUND, _REVERSAL, _WITHDRAWAL = "T0006", "T1107", "T1106", "T0403"


class PayPalMoney(PayPalRequests):
    """What happens to money after it was captured."""

    def money_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v2/payments/captures/{id}", self.keyed(self._get_capture)),
            web.post("/v2/payments/captures/{id}/refund", self.keyed(self._refund, status=201)),
            web.get("/v2/payments/refunds/{id}", self.keyed(self._get_refund)),
            web.get("/v1/customer/disputes", self.keyed(self._list_disputes)),
            web.get("/v1/customer/disputes/{id}", self.keyed(self._get_dispute)),
            web.get("/v1/reporting/transactions", self.keyed(self._list_transactions)),
            web.get("/v1/notifications/webhooks-events", self.keyed(self.list_events)),
        ]

    def _get_capture(self, request: web.Request, _: Json) -> Json:
        return self.existing(self.books.captures, request.match_info["id"])

    def _get_refund(self, request: web.Request, _: Json) -> Json:
        return self.existing(self.books.refunds, request.match_info["id"])

    # The balance.

    def receive(self, capture: Json) -> None:
        """Add a completed capture to the balance, and write PayPal's fee into it."""
        currency, gross = capture["amount"]["currency_code"], Decimal(capture["amount"]["value"])
        fee = min(gross, _rounded(gross * FEE_SHARE + FEE_FIXED, currency))
        capture["seller_receivable_breakdown"] = {
            "gross_amount": _money(gross, currency),
            "paypal_fee": _money(fee, currency),
            "net_amount": _money(gross - fee, currency),
        }
        self._move(_PAYMENT, gross, currency, id=capture["id"], custom=capture.get("custom_id"), fee=-fee)

    def _move(
        self,
        code: str,
        amount: Decimal,
        currency: str,
        *,
        id: str | None = None,
        about: str | None = None,
        custom: str | None = None,
        fee: Decimal = Decimal(0),
    ) -> None:
        info: Json = {
            "transaction_id": id or secrets.token_hex(8).upper(),
            "transaction_event_code": code,
            "transaction_initiation_date": iso_now(),
            "transaction_updated_date": iso_now(),
            "transaction_amount": _money(amount, currency),
            "fee_amount": _money(fee, currency),
            "transaction_status": "S",
        }
        if about is not None:
            info |= {"paypal_reference_id": about, "paypal_reference_id_type": "TXN"}
        if custom is not None:
            info["custom_field"] = custom
        # Two movements may have one transaction id, so they have a key of their own here.
        self.books.keep(self.books.transactions, f"{info['transaction_id']}:{code}", info)

    def withdraw(self, value: str, currency: str) -> None:
        """Send money to the bank, as PayPal does every day if the account is set so."""
        self.books.account = None
        self._move(_WITHDRAWAL, -Decimal(value), currency)

    def _list_transactions(self, request: web.Request, _: Json) -> Json:
        query = request.query
        start, end = query["start_date"], query["end_date"]
        found = [
            each
            for each in self.mine(self.books.transactions)
            if start[:19] <= each["transaction_initiation_date"][:19] <= end[:19]
            and query.get("transaction_id") in (None, each["transaction_id"])
        ]
        size, number = int(query.get("page_size", "100")), int(query.get("page", "1"))
        page = found[(number - 1) * size : number * size]
        return {
            "transaction_details": [{"transaction_info": each} for each in page],
            "account_number": "SIMULATED",
            "start_date": start,
            "end_date": end,
            "last_refreshed_datetime": iso_now(),
            "page": number,
            "total_items": len(found),
            "total_pages": -(-len(found) // size),
            "links": [],
        }

    # Refunds.

    def _refund(self, request: web.Request, body: Json) -> Json:
        return self.refund(request.match_info["id"], part(body, "amount").get("value"), custom_id=body.get("custom_id"))

    def refund(self, capture_id: str, value: str | None = None, *, custom_id: str | None = None) -> Json:
        """Refund a capture, as the API and the PayPal dashboard do."""
        capture = self.existing(self.books.captures, capture_id)
        if any(
            each["status"] != "RESOLVED" and each["dispute_life_cycle_stage"] != "INQUIRY"
            for each in self._disputes_of(capture_id)
        ):
            raise unprocessable("TRANSACTION_DISPUTED")
        left = self._left(capture)
        if left <= 0:
            raise unprocessable("CAPTURE_FULLY_REFUNDED")
        amount = left if value is None else Decimal(value)
        if amount > left:
            raise unprocessable("REFUND_AMOUNT_EXCEEDED")
        refund_id = secrets.token_hex(8).upper()
        status = self.books.next_refund_statuses.pop(0) if self.books.next_refund_statuses else "COMPLETED"
        if status == "INSUFFICIENT_FUNDS":
            raise unprocessable("REFUND_FAILED_INSUFFICIENT_FUNDS")
        refund: Json = {
            "id": refund_id,
            "status": status,
            "amount": {"currency_code": capture["amount"]["currency_code"], "value": str(amount)},
            "custom_id": custom_id,
            "capture_id": capture["id"],
            "create_time": iso_now(),
            "links": [{"rel": "up", "href": f"{self.url}/v2/payments/captures/{capture['id']}", "method": "GET"}],
        }
        self.books.keep(self.books.refunds, refund_id, refund)
        self._update_refunds(capture)
        if status == "COMPLETED":
            self._book_refund(refund)
        self.emit(f"PAYMENT.{'REFUND.PENDING' if status == 'PENDING' else 'CAPTURE.REFUNDED'}", "refund", refund)
        return refund

    def _book_refund(self, refund: Json) -> None:
        amount = refund["amount"]
        self._move(
            _REFUND,
            -Decimal(amount["value"]),
            amount["currency_code"],
            id=refund["id"],
            about=refund["capture_id"],
            custom=refund["custom_id"],
        )

    def move_refund(self, refund_id: str, status: str) -> Json:
        """Set the status of a pending refund: COMPLETED, FAILED or CANCELLED. Send the webhook, if there is one."""
        refund = self.existing(self.books.refunds, refund_id)
        if refund["status"] != "PENDING":
            raise unprocessable("REFUND_IS_FINAL")
        refund["status"] = status
        self._update_refunds(self.books.captures[refund["capture_id"]])
        # PayPal sends no webhook for a cancelled refund: clients have to poll.
        if status in ("COMPLETED", "FAILED"):
            event = "CAPTURE.REFUNDED" if status == "COMPLETED" else "REFUND.FAILED"
            self.emit(f"PAYMENT.{event}", "refund", refund)
        if status == "COMPLETED":
            self._book_refund(refund)
        return refund

    def _left(self, capture: Json) -> Decimal:
        """Return what was neither refunded nor taken back."""
        refunds = [each for each in self.books.refunds.values() if each["capture_id"] == capture["id"]]
        spent = sum(Decimal(each["amount"]["value"]) for each in refunds if each["status"] in ("COMPLETED", "PENDING"))
        return Decimal(capture["amount"]["value"]) - spent - Decimal(self.books.taken_back.get(capture["id"], 0))

    def _update_refunds(self, capture: Json) -> None:
        """Update the status of a capture from its refunds, and the list of refunds in its order."""
        refunds = [each for each in self.books.refunds.values() if each["capture_id"] == capture["id"]]
        if not any(each["status"] == "COMPLETED" for each in refunds):
            capture["status"] = "COMPLETED"
        else:
            capture["status"] = "REFUNDED" if self._left(capture) == 0 else "PARTIALLY_REFUNDED"
        order_id = part(part(capture, "supplementary_data"), "related_ids").get("order_id")
        if order_id in self.books.orders:
            self.books.orders[order_id]["purchase_units"][0]["payments"]["refunds"] = refunds

    # Disputes.

    def reverse(self, capture_id: str) -> Json:
        """Take what remains of a payment back without a dispute, as PayPal does for a bank that returns a debit."""
        capture = self.existing(self.books.captures, capture_id)
        return self._reverse(capture, self._left(capture), _REVERSAL)

    def _reverse(self, capture: Json, taken: Decimal, code: str) -> Json:
        """Take money back. The webhook contains a refund of the capture."""
        currency = capture["amount"]["currency_code"]
        reversal: Json = {
            "id": secrets.token_hex(8).upper(),
            "status": "COMPLETED",
            "amount": _money(taken, currency),
            "create_time": iso_now(),
            "links": [{"rel": "up", "href": f"{self.url}/v2/payments/captures/{capture['id']}", "method": "GET"}],
        }
        before = Decimal(self.books.taken_back.get(capture["id"], 0))
        self.books.taken_back[capture["id"]] = str(before + taken)
        self._move(code, -taken, currency, id=reversal["id"], about=capture["id"])
        self.emit("PAYMENT.CAPTURE.REVERSED", "refund", reversal)
        return reversal

    def open_dispute(
        self,
        capture_id: str,
        *,
        reason: str = "MERCHANDISE_OR_SERVICE_NOT_RECEIVED",
        stage: str = "CHARGEBACK",
        channel: str = "INTERNAL",
    ) -> Json:
        """Open a dispute. In the stage INQUIRY buyer and seller talk; from CHARGEBACK on, PayPal holds the money.

        A dispute of the channel EXTERNAL comes from the buyer's bank and has a fee if it is lost.
        """
        capture = self.existing(self.books.captures, capture_id)
        transaction: Json = {"seller_transaction_id": capture_id, "custom": capture.get("custom_id")}
        dispute: Json = {
            "dispute_id": f"PP-D-{secrets.randbelow(10**9)}",
            "create_time": iso_now(),
            "update_time": iso_now(),
            "disputed_transactions": [transaction],
            "reason": reason,
            "status": "OPEN",
            "dispute_state": "REQUIRED_ACTION",
            "dispute_amount": {**capture["amount"], "value": str(self._left(capture))},
            "dispute_life_cycle_stage": stage,
            "dispute_channel": channel,
        }
        self.books.keep(self.books.disputes, dispute["dispute_id"], dispute)
        if stage != "INQUIRY":
            self._hold(dispute)
        self.emit("CUSTOMER.DISPUTE.CREATED", "dispute", dispute)
        return dispute

    def dispute(self, charge: str, *, inquiry: bool = False) -> str:
        """Open a dispute and return its id, as the simulator of every payment service does."""
        return self.open_dispute(charge, stage="INQUIRY" if inquiry else "CHARGEBACK")["dispute_id"]

    def returned(self, charge: str) -> int:
        """Return what went back to the buyer by refunds, in our units."""
        refunds = [each for each in self.books.refunds.values() if each["capture_id"] == charge]
        amounts = [each["amount"] for each in refunds if each["status"] == "COMPLETED"]
        return sum(to_minor(each["value"], each["currency_code"]) for each in amounts)

    def escalate_dispute(self, dispute_id: str) -> Json:
        """Turn an inquiry into a claim: PayPal holds what was not refunded until now."""
        dispute = self.existing(self.books.disputes, dispute_id)
        if dispute["dispute_life_cycle_stage"] != "INQUIRY" or dispute["status"] == "RESOLVED":
            raise unprocessable("ACTION_NOT_ALLOWED_IN_CURRENT_DISPUTE_STATE")
        dispute.update(dispute_life_cycle_stage="CHARGEBACK", status="UNDER_REVIEW", update_time=iso_now())
        self._hold(dispute)
        self.emit("CUSTOMER.DISPUTE.UPDATED", "dispute", dispute)
        return dispute

    def close_dispute(self, dispute_id: str, *, won: bool, outcome: str | None = None) -> Json:
        """Decide a dispute for the seller (`won`) or for the buyer, with another outcome code if there is one."""
        dispute = self.existing(self.books.disputes, dispute_id)
        if dispute["status"] == "RESOLVED":
            raise unprocessable("DISPUTE_ALREADY_RESOLVED")
        held = Decimal(self.books.held.pop(dispute_id, 0))
        code = outcome or ("RESOLVED_SELLER_FAVOUR" if won else "RESOLVED_BUYER_FAVOUR")
        dispute.update(
            status="RESOLVED",
            dispute_state="RESOLVED",
            update_time=iso_now(),
            dispute_outcome={"outcome_code": code},
        )
        capture = self.books.captures[dispute["disputed_transactions"][0]["seller_transaction_id"]]
        currency = capture["amount"]["currency_code"]
        if held:
            self._move(_RELEASE, held, currency, about=capture["id"])
        if not won:
            self._settle(dispute, capture, min(held, self._left(capture)), currency)
        self.emit("CUSTOMER.DISPUTE.RESOLVED", "dispute", dispute)
        return dispute

    def _settle(self, dispute: Json, capture: Json, taken: Decimal, currency: str) -> None:
        """Give the held money to the buyer. After a refund by the seller there may be none."""
        movements: list[Json] = []
        if taken:
            self._reverse(capture, taken, _CHARGEBACK)
            movements.append(_movement(taken, currency, "DISPUTE_SETTLEMENT"))
        if taken and dispute["dispute_channel"] == "EXTERNAL":
            self._move(_CHARGEBACK_FEE, -CHARGEBACK_FEE, currency, about=capture["id"])
            movements.append(_movement(CHARGEBACK_FEE, currency, "CHARGEBACK_FEE"))
        dispute["money_movements"] = movements

    def _hold(self, dispute: Json) -> None:
        capture = self.books.captures[dispute["disputed_transactions"][0]["seller_transaction_id"]]
        held = min(Decimal(dispute["dispute_amount"]["value"]), self._left(capture))
        if held > 0:
            self.books.held[dispute["dispute_id"]] = str(held)
            self._move(_HOLD, -held, capture["amount"]["currency_code"], about=capture["id"])

    def _disputes_of(self, capture_id: str) -> list[Json]:
        return [
            each
            for each in self.books.disputes.values()
            if each["disputed_transactions"][0]["seller_transaction_id"] == capture_id
        ]

    def _list_disputes(self, request: web.Request, _: Json) -> Json:
        wanted = request.query.get("disputed_transaction_id")
        names = (
            "dispute_id",
            "create_time",
            "update_time",
            "reason",
            "status",
            "dispute_state",
            "dispute_amount",
            "dispute_life_cycle_stage",
            "dispute_channel",
        )
        found = self.mine(self.books.disputes)
        if wanted is not None:
            found = [each for each in found if each in self._disputes_of(wanted)]
        return {"items": [{name: each[name] for name in names} for each in found], "links": []}

    def _get_dispute(self, request: web.Request, _: Json) -> Json:
        return self.existing(self.books.disputes, request.match_info["id"])


def _movement(amount: Decimal, currency: str, reason: str) -> Json:
    return {"affected_party": "SELLER", "amount": _money(amount, currency), "type": "DEBIT", "reason": reason}


def _rounded(amount: Decimal, currency: str) -> Decimal:
    digits = to_decimal(0, currency)
    return amount.quantize(Decimal(digits), rounding=ROUND_UP)


def _money(amount: Decimal, currency: str) -> Json:
    return {"currency_code": currency, "value": to_decimal(to_minor(str(amount), currency), currency)}
