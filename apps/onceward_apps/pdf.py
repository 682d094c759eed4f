"""PDF pages with fonts for most of the world's alphabets: Latin, Greek, Cyrillic, Arabic, Hebrew, Thai, Devanagari,
Georgian.

The library is imported at first use: it would take a quarter of the start time. Chinese, Japanese and Korean are not
covered; their characters appear as empty boxes.
"""

from __future__ import annotations

import logging
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpdf import FPDF

FONT = "body"
FALLBACK = "more"


@lru_cache(maxsize=1)
def _font_files() -> dict[tuple[str, str], Path]:
    """Write the font files to a private directory of this process, because the PDF library reads fonts from files."""
    from pymupdf_fonts import fontbuffers  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    folder = Path(tempfile.mkdtemp(prefix="onceward-fonts-"))
    files: dict[tuple[str, str], Path] = {}
    for family, style, buffer in (
        (FONT, "", "notos"),
        (FONT, "B", "notosbo"),
        (FALLBACK, "", "figo"),
        (FALLBACK, "B", "figbo"),
    ):
        path = folder / f"{buffer}.ttf"
        path.write_bytes(fontbuffers[buffer]())
        files[family, style] = path
    return files


def new_pdf(*, orientation: str = "portrait") -> FPDF:
    """Return an empty document with the font `FONT` in regular and bold."""
    from fpdf import FPDF

    # It warns of every table of a font that it leaves out.
    logging.getLogger("fontTools.subset").setLevel(logging.ERROR)
    pdf = FPDF(orientation=orientation)  # pyright: ignore[reportArgumentType]
    for (family, style), path in _font_files().items():
        pdf.add_font(family, style=style, fname=str(path))  # pyright: ignore[reportArgumentType]
    pdf.set_fallback_fonts([FALLBACK], exact_match=False)
    return pdf
