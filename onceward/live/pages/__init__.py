"""The dashboard page of live queries."""

from __future__ import annotations

from pathlib import Path

from onceward.live.pages import live
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = Pages(
    pages=live.PAGES,
    sections=(
        Section("live", "Live queries", "/dashboard/live", "v", "onceward.live_nodes", "admin", True, "Machine", 3),
    ),
    templates=(Path(__file__).parent,),
)
