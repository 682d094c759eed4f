"""The dashboard pages of the outbox: deliveries and endpoints."""

from __future__ import annotations

from pathlib import Path

from onceward.outbox.pages import deliveries, endpoints
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = deliveries.PAGES + Pages(
    pages=endpoints.PAGES,
    actions=endpoints.ACTIONS,
    sections=(
        Section("endpoints", "Endpoints", "/dashboard/endpoints", "p", "onceward.endpoints", group="Setup", order=2),
    ),
    status=(endpoints.status,),
    templates=(Path(__file__).parent,),
)
