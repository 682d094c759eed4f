"""What deletes the rows of each table of ticketing and when, or why they are kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "ticketing.signing_keys": "kept: one row for each organization",
    "ticketing.fees": "kept: at most one row for each organization",
    "ticketing.shops": "kept: at most one row for each organization",
    "ticketing.venues": "kept: one row for each venue",
    "ticketing.events": "kept: one row for each event",
    "ticketing.sections": "kept: a few rows for each event",
    "ticketing.ticket_types": "kept: a few rows for each section",
    "ticketing.access_codes": "kept: one row for each presale code",
    "ticketing.questions": "kept: a few rows for each event",
    "ticketing.pools": "kept: one row for each row of seats or section",
    "ticketing.seats": "kept: one row for each seat of an event",
    "ticketing.coupons": "kept: one row for each coupon",
    "ticketing.checkouts": "kept for ever: a payment may arrive for an old one, and must find what it was for",
    "ticketing.seat_holds": "kept: one row for each hold, also of those that expired",
    "ticketing.checkout_items": "kept for ever: what was sold, and the items of checkouts that ended without a sale",
    "ticketing.tickets": "kept for ever: what was sold",
    "ticketing.invoice_counters": "kept: one row for each organization",
    "ticketing.invoices": "kept for ever: documents as they were issued, numbers without gaps",
    "ticketing.sellers": "kept: at most one row for each organization",
    "ticketing.billing": "kept: at most one row for each order",
    "ticketing.scans": "kept for ever: evidence of who was admitted",
    "ticketing.doors": "kept: a few rows for each event",
    "ticketing.door_counts": "kept: one row for each event",
    "ticketing.waitlist": "kept: one row for each person who waited for an event",
    "ticketing.settlements": "kept for ever: one row for each settlement with an organizer",
    "ticketing.transfers": "kept for ever: one row for each line of a bank statement",
    "ticketing.sales_funnel": "kept: one row for each event and day with a sale",
    "ticketing.purchases_counted": "kept: one row for each purchase, against counting it twice",
}
