"""The dashboard pages of trust: the audit log, API keys, members and one's own account."""

from __future__ import annotations

from pathlib import Path

from onceward.trust.pages import account, audit, keys, members, passkeys
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section

PAGES = Pages(
    pages=(*audit.PAGES, *keys.PAGES),
    actions=(*keys.ACTIONS, *members.ACTIONS, *account.ACTIONS, *passkeys.ACTIONS),
    extras=(*members.EXTRAS, *account.EXTRAS, *passkeys.EXTRAS),
    sections=(
        Section("audit", "Audit log", "/dashboard/audit", "a", "onceward.audit_log", group="Records", order=2),
        Section("keys", "Keys", "/dashboard/keys", "k", "onceward.api_keys", "owner", group="Setup", order=4),
        Section(
            "members", "Members", "/dashboard/members", "b", "onceward.memberships", "owner", group="Setup", order=5
        ),
        Section("account", "Account", "/dashboard/account", "y", "onceward.sessions", "user", group="Setup", order=9),
    ),
    templates=(Path(__file__).parent,),
)
