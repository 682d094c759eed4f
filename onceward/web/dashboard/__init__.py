"""The frame of the dashboard. Features add pages to it, and live queries keep the pages current."""

from onceward.web.dashboard.routes import dashboard_router
from onceward.web.dashboard.site import Site

__all__ = ["Site", "dashboard_router"]
