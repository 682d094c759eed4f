"""The certificate as a PDF page. A pure function: values in, bytes out; the same values give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import segno

from onceward.look import LIGHT, rgb
from onceward_apps.pdf import FONT, new_pdf

WIDTH_MM, HEIGHT_MM = 297, 210
INK, ACCENT, QUIET = rgb(LIGHT["ink"]), rgb(LIGHT["accent"]), rgb(LIGHT["muted"])


def render(snapshot: Mapping[str, Any], credential_id: str, url: str, issued_at: datetime) -> bytes:
    """Return one landscape page with the names, the percentages, the credential id and a QR code of the verify page."""
    pdf = new_pdf(orientation="landscape")
    pdf.set_creation_date(issued_at.astimezone(UTC))
    pdf.set_title(f"Certificate {credential_id}")
    pdf.set_auto_page_break(False)
    pdf.add_page()
    pdf.set_draw_color(*ACCENT)
    pdf.set_line_width(1.2)
    pdf.rect(10, 10, WIDTH_MM - 20, HEIGHT_MM - 20)
    pdf.set_line_width(0.3)
    pdf.rect(13, 13, WIDTH_MM - 26, HEIGHT_MM - 26)

    def line(y: float, text: str, size: float, *, bold: bool = False, color: tuple[int, int, int] = INK) -> None:
        pdf.set_font(FONT, "B" if bold else "", size)
        # A long name gets a smaller font instead of leaving the page.
        while size > 8 and pdf.get_string_width(text) > WIDTH_MM - 60:
            size -= 1
            pdf.set_font_size(size)
        pdf.set_text_color(*color)
        pdf.set_xy(20, y)
        pdf.cell(WIDTH_MM - 40, 10, text, align="C")

    line(30, str(snapshot.get("organizationName") or ""), 14, color=QUIET)
    line(45, "Certificate of completion", 32, bold=True, color=ACCENT)
    line(72, "This certifies that", 12, color=QUIET)
    line(84, str(snapshot.get("studentName") or "A student"), 28, bold=True)
    line(102, "has completed", 12, color=QUIET)
    line(114, str(snapshot.get("cohortName") or ""), 20, bold=True)
    line(130, f"{_day(snapshot.get('startDate'))} – {_day(snapshot.get('endDate'))}", 12, color=QUIET)
    line(140, _achieved(snapshot), 12, color=QUIET)
    line(168, f"Issued {issued_at.astimezone(UTC):%Y-%m-%d}  ·  Credential {credential_id}", 10)
    line(176, url, 9, color=QUIET)
    code = io.BytesIO()
    segno.make(url, error="m", micro=False).save(code, kind="png", scale=6, border=2)
    code.seek(0)
    pdf.image(code, x=WIDTH_MM - 55, y=HEIGHT_MM - 60, w=32, h=32)
    return bytes(pdf.output())


def _day(text: Any) -> str:
    return datetime.fromisoformat(str(text)).strftime("%Y-%m-%d") if text else ""


def _achieved(snapshot: Mapping[str, Any]) -> str:
    parts = [f"{snapshot['completionPercentage']:.0f} % of the course"]
    if snapshot.get("attendancePercentage") is not None:
        parts.append(f"{snapshot['attendancePercentage']:.0f} % of the live sessions")
    return " and ".join(parts)
