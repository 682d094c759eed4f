"""Dashboard pages of messages and of their templates."""

from __future__ import annotations

from pathlib import Path

from onceward.messages.pages import deliverability, messages, notifications, report, templates, troubles
from onceward.web.dashboard.contribution import Extra, Pages
from onceward.web.dashboard.navigation import Section

PAGES = messages.PAGES + Pages(
    pages=(*templates.PAGES, *notifications.PAGES, *report.PAGES, *deliverability.PAGES),
    actions=(*notifications.ACTIONS, *templates.ACTIONS, *deliverability.ACTIONS),
    bars=("bell",),
    status=(troubles.status,),
    sections=(
        Section(
            "notifications",
            "Notifications",
            "/dashboard/notifications",
            "n",
            "onceward.dashboard_messages",
            group="",
            order=5,
        ),
        Section("message-report", "Message report", report.PATH, "", "onceward.messages", group="Activity", order=31),
        Section("sending", "Sending", deliverability.PATH, "", "onceward.suppressions", group="Setup", order=4),
        Section("templates", "Templates", "/dashboard/templates", "t", "onceward.messages", group="Setup", order=3),
    ),
    extras=(
        Extra("/dashboard/templates/{name}/preview", templates.preview_route),
        Extra(f"{report.PATH}.csv", report.csv_route),
    ),
    templates=(Path(__file__).parent,),
)
