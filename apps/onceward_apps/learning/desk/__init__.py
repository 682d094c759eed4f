"""The desk of the school: its lists, and what people do with them."""

from __future__ import annotations

from onceward.web.dashboard import Pages
from onceward_apps.learning.desk import cohorts, enrolments, home, session_actions
from onceward_apps.learning.desk.listings import desk

PAGES = desk.pages + Pages(status=(home.status,))

__all__ = ["PAGES", "cohorts", "desk", "enrolments", "home", "session_actions"]
