"""Documents for the buyer: QR code, calendar entry, receipt. Pure functions: rows in, bytes out.

The PDF and calendar libraries are imported at first use: they would take a quarter of the start time.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import segno

from onceward.money import format_amount, format_number
from onceward_apps.pdf import FONT, new_pdf
from onceward_apps.ticketing.codes import qr_payload

if TYPE_CHECKING:
    from fpdf import FPDF

RECEIPT_WIDTH_MM = 190


def qr_path(ticket: Any) -> str:
    """Return the path of the stored image.

    It contains the id: a ticket code would appear in the logs of the file store.
    """
    return f"ticketing/{ticket['organization_id']}/{ticket['event_id']}/{ticket['id']}.png"


def qr_url(ticket: Any) -> str:
    """Return the URL of the image for the browser of the buyer or of the new holder, which adds the token of its
    page."""
    if ticket["transferred_from"] is not None:
        return f"/tickets/{ticket['id']}/qr.png"
    return f"/orders/{ticket['checkout_id']}/tickets/{ticket['id']}/qr.png"


def qr_png(key: bytes, ticket: Any) -> bytes:
    """Draw the QR code with high error correction and a wide margin, readable on a scratched phone."""
    text = qr_payload(key, ticket["event_id"], ticket["ticket_code"])
    out = io.BytesIO()
    segno.make(text, error="q", micro=False).save(out, kind="png", scale=8, border=4)
    return out.getvalue()


def money(cents: int, currency: str, locale: str = "en") -> str:
    """Format an amount for people: 12.50 EUR is €12.50."""
    text = format_amount(cents, currency, locale)
    return text.replace(currency, f"{currency}\N{NO-BREAK SPACE}", 1) if text.startswith(currency) else text


def moment(at: datetime, zone: str, language: str = "en") -> str:
    """Return an instant as the venue's clock shows it, with the day of the week."""
    from babel import dates

    local = at.astimezone(ZoneInfo(zone))
    day = dates.format_date(local, format="full", locale=language)
    return f"{day}, {dates.format_time(local, format='short', locale=language)}"


def calendar(order: Any, *, url: str) -> bytes:
    """Return a calendar entry. Its uid depends only on the order, and its sequence grows with each change of the date.

    So a second import replaces the first one.
    """
    from icalendar import Calendar, Event

    event = Event()
    event.add("uid", f"checkout-{order['id']}@onceward")
    event.add("sequence", order["date_version"])
    event.add("status", "CANCELLED" if order["event_status"] == "cancelled" else "CONFIRMED")
    event.add("summary", order["event_name"])
    event.add("dtstart", order["starts_at"].astimezone(ZoneInfo(order["timezone"])))
    event.add("dtend", order["ends_at"].astimezone(ZoneInfo(order["timezone"])))
    changed = order["moved_at"] or order["completed_at"] or datetime.now(UTC)
    event.add("dtstamp", changed.astimezone(UTC))
    event.add("location", ", ".join(part for part in (order["venue_name"], order["venue_address"]) if part))
    event.add("url", url)
    calendar_file = Calendar()
    calendar_file.add("prodid", "-//Onceward//Ticketing//EN")
    calendar_file.add("version", "2.0")
    calendar_file.add_component(event)
    return calendar_file.to_ical()


def receipt(order: Any, items: Sequence[Any]) -> bytes:
    """Return a PDF page with items, tax, total and refunds."""
    pdf = new_pdf()
    pdf.set_creation_date((order["completed_at"] or order["started_at"]).astimezone(UTC))
    pdf.add_page()
    pdf.set_font(FONT, "B", 20)
    pdf.cell(0, 12, order["organizer"], new_x="LMARGIN", new_y="NEXT")
    pdf.set_font(FONT, "", 10)
    for line in _head(order):
        pdf.cell(0, 6, line, new_x="LMARGIN", new_y="NEXT")
    pdf.ln(6)
    for item in items:
        _row(pdf, f"{order['event_name']}: {item['place']}", _amount(item["price_cents"], order))
    pdf.ln(2)
    for label, cents in _sums(order):
        _row(pdf, label, _amount(cents, order), bold=label == "Total")
    pdf.ln(8)
    pdf.set_font(FONT, "", 8)
    pdf.multi_cell(RECEIPT_WIDTH_MM, 4, order["refund_policy"] or "Thank you.")
    return bytes(pdf.output())


def _head(order: Any) -> list[str]:
    at = (order["completed_at"] or order["started_at"]).astimezone(ZoneInfo(order["timezone"]))
    number = order["invoice_number"]
    return [
        f"Receipt for order {order['id']}",
        "Invoice number: follows" if number is None else f"Invoice number {number}",
        f"Date {at:%Y-%m-%d %H:%M}",
        f"{order['event_name']}, {order['starts_at'].astimezone(ZoneInfo(order['timezone'])):%Y-%m-%d %H:%M}",
        f"{order['venue_name']} {order['venue_address']}",
        f"Paid by {order['name'] or order['email']}",
    ]


def _sums(order: Any) -> list[tuple[str, int]]:
    rows = [("Subtotal", order["subtotal_cents"])]
    if order["group_discount_cents"]:
        rows.append(("Group discount", -order["group_discount_cents"]))
    if of_coupon := order["discount_cents"] - order["group_discount_cents"]:
        rows.append((f"Discount {order['coupon_code'] or ''}".strip(), -of_coupon))
    if order["fee_paid_by"] == "buyer" and order["platform_fee_cents"]:
        rows.append(("Service fee", order["platform_fee_cents"]))
    if order["tax_cents"]:
        rows.append(("Tax (included)" if order["tax_included"] else "Tax", order["tax_cents"]))
    rows.append(("Total", order["total_cents"]))
    if order["refunded_cents"]:
        rows.append(("Refunded", -order["refunded_cents"]))
    return rows


def _row(pdf: FPDF, label: str, amount: str, *, bold: bool = False) -> None:
    pdf.set_font(FONT, "B" if bold else "", 11)
    pdf.cell(RECEIPT_WIDTH_MM - 50, 7, label)
    pdf.cell(50, 7, amount, align="R", new_x="LMARGIN", new_y="NEXT")


def _amount(cents: int, order: Any) -> str:
    return f"{format_number(cents, order['currency'])} {order['currency']}"
