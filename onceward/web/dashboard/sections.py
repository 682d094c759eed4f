"""The navigation: what there is to look at, for whom, and the key that goes there."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.trust.identity import Identity, Scope


@dataclass(frozen=True, slots=True)
class Section:
    """`table`: without it the section is not installed. `instance`: belongs to no organization."""

    name: str
    title: str
    path: str
    key: str
    table: str
    scope: Scope = "viewer"
    instance: bool = False


GROUPS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    (
        "",
        (
            Section("overview", "Overview", "/", "o", "onceward.work"),
            Section("dead-letters", "Dead letters", "/dashboard/dead-letters", "x", "onceward.work"),
        ),
    ),
    (
        "Activity",
        (
            Section("events", "Events", "/dashboard/events", "e", "onceward.webhook_events"),
            Section("jobs", "Jobs", "/dashboard/jobs", "j", "onceward.jobs"),
            Section("messages", "Messages", "/dashboard/messages", "m", "onceward.messages"),
            Section("deliveries", "Deliveries", "/dashboard/deliveries", "d", "onceward.deliveries"),
            Section("workflows", "Workflows", "/dashboard/workflows", "w", "onceward.workflows"),
            Section("schedules", "Schedules", "/dashboard/schedules", "s", "onceward.schedules", "admin", True),
        ),
    ),
    (
        "Records",
        (
            Section("ledger", "Ledger", "/dashboard/ledger", "l", "onceward.ledger_accounts"),
            Section("audit", "Audit log", "/dashboard/audit", "a", "onceward.audit_log"),
        ),
    ),
    (
        "Setup",
        (
            Section("sources", "Sources", "/dashboard/sources", "r", "onceward.sources"),
            Section("endpoints", "Endpoints", "/dashboard/endpoints", "p", "onceward.endpoints"),
            Section("templates", "Templates", "/dashboard/templates", "t", "onceward.messages"),
            Section("keys", "Keys", "/dashboard/keys", "k", "onceward.api_keys", "owner"),
        ),
    ),
    (
        "Machine",
        (
            Section("queues", "Queues", "/dashboard/queues", "q", "onceward.queues", "admin", True),
            Section("workers", "Workers", "/dashboard/workers", "u", "onceward.workers", "admin", True),
            Section("live", "Live queries", "/dashboard/live", "v", "onceward.live_nodes", "admin", True),
        ),
    ),
)


def navigation(tables: frozenset[str], identity: Identity) -> list[tuple[str, list[Section]]]:
    """The groups with those of their sections that are installed and that this person may see."""
    shown: list[tuple[str, list[Section]]] = []
    for title, sections in GROUPS:
        kept = [
            each
            for each in sections
            if each.table in tables
            and identity.may(each.scope)
            and (not each.instance or identity.organization is None)
        ]
        if kept:
            shown.append((title, kept))
    return shown
