"""The dashboard: what happened, why, and what to do about it. Server-rendered pages, kept true by our own live queries."""

from onceward.web.dashboard.routes import dashboard_router
from onceward.web.dashboard.site import Site

__all__ = ["Site", "dashboard_router"]
