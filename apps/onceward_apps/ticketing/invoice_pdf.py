"""PDF files of invoices, credit notes and tickets. Pure functions: what is frozen goes in, bytes come out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from onceward.money import format_number
from onceward_apps.pdf import FONT, new_pdf
from onceward_apps.ticketing.documents import qr_png

if TYPE_CHECKING:
    from fpdf import FPDF

WIDTH_MM = 190
TITLES = {"invoice": "Invoice", "credit_note": "Credit note"}
COLUMNS = (100, 30, 30, 30)


def invoice(row: Any) -> bytes:
    """Return an invoice or credit note as it was issued."""
    document: Mapping[str, Any] = row["document"]
    issued: datetime = row["issued_at"].astimezone(UTC)
    pdf = new_pdf()
    pdf.set_creation_date(issued)
    pdf.set_title(f"{TITLES[row['kind']]} {document['number']}")
    pdf.add_page()
    seller, buyer = document["seller"], document["buyer"]
    _lines(pdf, [seller["name"], seller["address"], _tax_id(seller["tax_id"])], bold_first=True)
    pdf.ln(6)
    to = [buyer["company"], buyer["name"], buyer["address"], buyer["email"], _tax_id(buyer["tax_id"])]
    _lines(pdf, to)
    pdf.ln(8)
    pdf.set_font(FONT, "B", 18)
    pdf.cell(0, 10, f"{TITLES[row['kind']]} {document['number']}", new_x="LMARGIN", new_y="NEXT")
    facts = [f"Date {issued:%Y-%m-%d}", f"Order {document['order_id']}"]
    if row["kind"] == "credit_note":
        facts.insert(0, f"For invoice {document['about']}")
    else:
        facts.insert(1, f"Date of supply {document['supplied_at'][:10]}")
    _lines(pdf, [*facts, f"{document['event']['name']}, {document['event']['venue']}"])
    pdf.ln(4)
    _table(pdf, document)
    if note := document.get("tax_note"):
        pdf.ln(4)
        _lines(pdf, [note])
    if seller["footer"]:
        pdf.ln(10)
        pdf.set_font(FONT, "", 8)
        pdf.multi_cell(WIDTH_MM, 4, seller["footer"])
    return bytes(pdf.output())


def tickets(ring: bytes, rows: Sequence[Any]) -> bytes:
    """Return a page for each ticket, with the QR code that the door reads."""
    pdf = new_pdf()
    for row in rows:
        pdf.add_page()
        starts = row["starts_at"].astimezone(ZoneInfo(row["timezone"]))
        pdf.set_font(FONT, "", 11)
        pdf.cell(0, 7, row["organizer"], new_x="LMARGIN", new_y="NEXT")
        pdf.set_font(FONT, "B", 24)
        pdf.multi_cell(WIDTH_MM, 11, row["event_name"], new_x="LMARGIN", new_y="NEXT")
        where = ", ".join(part for part in (row["venue_name"], row["venue_address"]) if part)
        _lines(pdf, [f"{starts:%Y-%m-%d %H:%M} ({row['timezone']})", where])
        pdf.ln(6)
        pdf.image(io.BytesIO(qr_png(ring, row)), w=80, alt_text=f"QR code of ticket {row['ticket_code']}")
        pdf.ln(4)
        pdf.set_font(FONT, "B", 16)
        pdf.cell(0, 9, row["place"], new_x="LMARGIN", new_y="NEXT")
        _lines(pdf, [row["ticket_code"], row["holder_name"], "Show this code at the door, on paper or on a screen."])
    return bytes(pdf.output())


def _table(pdf: FPDF, document: Mapping[str, Any]) -> None:
    currency = document["currency"]

    def amount(cents: int) -> str:
        return format_number(cents, currency)

    _row(pdf, ("", "Net", "Tax", f"Total {currency}"), bold=True)
    for line in document["lines"]:
        gross = line["net_cents"] + line["tax_cents"]
        tax = f"{amount(line['tax_cents'])} ({_percent(line['tax_bps'])})"
        _row(pdf, (line["text"], amount(line["net_cents"]), tax, amount(gross)))
    pdf.ln(2)
    for rate in document["rates"]:
        gross = rate["net_cents"] + rate["tax_cents"]
        texts = (f"Tax rate {_percent(rate['tax_bps'])}", amount(rate["net_cents"]), amount(rate["tax_cents"]))
        _row(pdf, (*texts, amount(gross)))
    _row(pdf, ("Total", "", "", amount(document["total_cents"])), bold=True)


def _row(pdf: FPDF, texts: Sequence[str], *, bold: bool = False) -> None:
    pdf.set_font(FONT, "B" if bold else "", 10)
    for n, (text, width) in enumerate(zip(texts, COLUMNS, strict=True)):
        is_last = n == len(COLUMNS) - 1
        shown = text if n or len(text) < 58 else text[:57] + "…"
        pdf.cell(
            width,
            7,
            shown,
            align="R" if n else "L",
            new_x="LMARGIN" if is_last else "RIGHT",
            new_y="NEXT" if is_last else "TOP",
        )


def _lines(pdf: FPDF, texts: Sequence[str], *, bold_first: bool = False) -> None:
    for n, text in enumerate(texts):
        if text:
            pdf.set_font(FONT, "B" if bold_first and n == 0 else "", 10)
            pdf.multi_cell(WIDTH_MM, 5, text, new_x="LMARGIN", new_y="NEXT")


def _tax_id(tax_id: str) -> str:
    return f"Tax id {tax_id}" if tax_id else ""


def _percent(bps: int) -> str:
    return f"{bps / 100:g} %"
