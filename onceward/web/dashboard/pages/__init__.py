"""The pages, one file each."""

from onceward.web.dashboard.acting import Action
from onceward.web.dashboard.looking import Page
from onceward.web.dashboard.pages import (
    audit,
    consequences,
    dead_letters,
    detail,
    endpoints,
    keys,
    ledger,
    lists,
    live,
    overview,
    queues,
    schedules,
    search,
    sources,
    templates,
    workers,
)

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *search.PAGES,
    *dead_letters.PAGES,
    *consequences.PAGES,
    *queues.PAGES,
    *workers.PAGES,
    *schedules.PAGES,
    *sources.PAGES,
    *endpoints.PAGES,
    *keys.PAGES,
    *templates.PAGES,
    *ledger.PAGES,
    *audit.PAGES,
    *live.PAGES,
    *lists.PAGES,
    *detail.PAGES,
)
"""In the order in which paths are matched: names before patterns."""

ACTIONS: tuple[Action, ...] = (
    *dead_letters.ACTIONS,
    *queues.ACTIONS,
    *schedules.ACTIONS,
    *sources.ACTIONS,
    *endpoints.ACTIONS,
    *keys.ACTIONS,
    *detail.ACTIONS,
)
