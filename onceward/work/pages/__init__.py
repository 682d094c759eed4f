"""The dashboard pages of work: overview, consequences, dead letters, jobs, queues, workers."""

from __future__ import annotations

from pathlib import Path

from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section
from onceward.work.pages import consequences, dead_letters, jobs, overview, queues, workers

PAGES = jobs.PAGES + Pages(
    pages=(*overview.PAGES, *consequences.PAGES, *dead_letters.PAGES, *queues.PAGES, *workers.PAGES),
    actions=(*dead_letters.ACTIONS, *queues.ACTIONS),
    sections=(
        Section("overview", "Overview", "/", "o", "onceward.work", group="", order=1),
        Section("dead-letters", "Dead letters", "/dashboard/dead-letters", "x", "onceward.work", group="", order=2),
        Section("queues", "Queues", "/dashboard/queues", "q", "onceward.queues", "admin", True, "Machine", 1),
        Section("workers", "Workers", "/dashboard/workers", "u", "onceward.workers", "admin", True, "Machine", 2),
    ),
    finders=(consequences.find_by_id,),
    templates=(Path(__file__).parent,),
)
