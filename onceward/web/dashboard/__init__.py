"""The frame of the dashboard. Features and apps add pages to it, and live queries keep the pages current."""

from onceward.web.dashboard import frame
from onceward.web.dashboard.action import Action, ActionRefused, Done, back, local_path, reason_of
from onceward.web.dashboard.contribution import Figure, Pages, Reason, Status
from onceward.web.dashboard.formats import many, number
from onceward.web.dashboard.navigation import Section
from onceward.web.dashboard.page import Missing, Page, View
from onceward.web.dashboard.routes import PageRoute, TheSite, dashboard_router, icon_router, identify
from onceward.web.dashboard.site import Site

__all__ = [
    "Action",
    "ActionRefused",
    "Done",
    "Figure",
    "Missing",
    "Page",
    "PageRoute",
    "Pages",
    "Reason",
    "Section",
    "Site",
    "Status",
    "TheSite",
    "View",
    "back",
    "dashboard_router",
    "frame",
    "icon_router",
    "identify",
    "local_path",
    "many",
    "number",
    "reason_of",
]
