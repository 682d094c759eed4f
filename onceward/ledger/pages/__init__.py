"""The dashboard pages of the ledger."""

from __future__ import annotations

from pathlib import Path

from onceward.ledger.pages import ledger
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = Pages(
    pages=ledger.PAGES,
    sections=(
        Section("ledger", "Ledger", "/dashboard/ledger", "l", "onceward.ledger_accounts", group="Records", order=1),
    ),
    templates=(Path(__file__).parent,),
)
