"""The frame of the dashboard. Features add pages to it; it shows them, kept current by live queries."""

from onceward.web.dashboard.routes import dashboard_router
from onceward.web.dashboard.site import Site

__all__ = ["Site", "dashboard_router"]
