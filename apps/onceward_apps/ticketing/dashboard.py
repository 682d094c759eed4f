"""What ticketing adds to the dashboard: a link to its own pages."""

from __future__ import annotations

from onceward.web import Pages, Section

PAGES = Pages(sections=(Section("ticketing", "Ticket shop", "/events", "0", "ticketing.events", group="Apps"),))
