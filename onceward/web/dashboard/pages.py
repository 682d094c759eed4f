"""The dashboard's own page: search."""

from __future__ import annotations

from onceward.web.dashboard import search
from onceward.web.dashboard.contribution import Pages

PAGES = Pages(pages=search.PAGES)
