"""The inbox's pages of the dashboard: events and sources."""

from __future__ import annotations

from pathlib import Path

from onceward.inbox.pages import events, sources
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = events.PAGES + Pages(
    pages=sources.PAGES,
    actions=sources.ACTIONS,
    sections=(Section("sources", "Sources", "/dashboard/sources", "r", "onceward.sources", group="Setup", order=1),),
    arrivals=(events.ARRIVED,),
    templates=(Path(__file__).parent,),
)
