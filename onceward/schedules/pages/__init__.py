"""Dashboard pages of schedules."""

from __future__ import annotations

from pathlib import Path

from onceward.schedules.pages import schedules
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = Pages(
    pages=schedules.PAGES,
    actions=schedules.ACTIONS,
    sections=(
        Section(
            "schedules", "Schedules", "/dashboard/schedules", "s", "onceward.schedules", "admin", True, "Activity", 60
        ),
    ),
    status=(schedules.status,),
    templates=(Path(__file__).parent,),
)
