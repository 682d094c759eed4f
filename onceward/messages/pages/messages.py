"""Dashboard pages of messages."""

from __future__ import annotations

from onceward.feature import NOBODY, OWNERS
from onceward.web.dashboard.contribution import Hit
from onceward.web.dashboard.page import View
from onceward.work.pages.kinds import work_pages
from onceward.work.pages.listing import UNFINISHED, Listing

BY_KEY = f"""
select m.id from onceward.messages m where coalesce(m.organization_id, {NOBODY}) = any({OWNERS}) and m.key = $1 limit 20
"""

MESSAGES = Listing(
    slug="messages",
    noun="message",
    table="onceward.messages",
    label="r.template",
    about="r.channel",
    key="r.key",
    ended="r.status",
    attempts="r.attempts",
    message="r.reason",
    states=(*UNFINISHED, "success", "cancelled", "expired", "unknown"),
    facets={"label": "r.template = {0}", "about": "r.channel = {0}"},
    body=(
        "r.data as payload, r.recipient, r.address, r.locale, r.scheduled_for, r.expires_at, r.sent_at, r.category, "
        "r.version, r.reason"
    ),
    empty="Send one from a handler: await tx.send('order-confirmation', to=user, key=..., data={...}).",
    columns=("Template", "Key", "Created"),
    about_title="Channel",
    payload_title="Data",
)


async def find(view: View, name: str) -> list[Hit]:
    """Find messages by key."""
    return [Hit("message", row["id"]) for row in await view.conn.fetch(BY_KEY, name)]


PAGES = work_pages(MESSAGES, key="m", order=30, finders=(find,))
