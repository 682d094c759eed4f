"""The dashboard page of notifications to the staff, and the bell with the number of unread ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.messages import notification_inbox
from onceward.trust import transaction_for
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING

PATH = "/dashboard/notifications"
SHOWN = 100


async def load(view: View) -> dict[str, Any]:
    messages = await notification_inbox.list_inbox(
        view.conn, [notification_inbox.STAFF], organization=view.organization, limit=SHOWN
    )
    return {"title": "Notifications", "notifications": messages, **await load_bell(view)}


async def load_bell(view: View) -> dict[str, Any]:
    unread = await notification_inbox.count_unread(
        view.conn, [notification_inbox.STAFF], organization=view.organization
    )
    return {"title": "Notifications", "unread": unread}


async def _mark_read(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    one, up_to = form.get("id", ""), form.get("up_to", "")
    if not (one or up_to).isdigit() or len(one or up_to) > 18:
        raise ActionRefused("choose a notification, or mark all as read")
    async with transaction_for(site.database, identity) as tx:
        ids = [int(one)] if one else []
        await notification_inbox.mark_read(tx, [notification_inbox.STAFF], ids=ids, up_to=None if one else int(up_to))
    return Done(PATH)


PAGES = (
    Page(name="notifications", path=PATH, title="Notifications", section="notifications", load=load),
    Page(name="bell", path=f"{PATH}/bell", title="Notifications", section="notifications", load=load_bell, every_s=2.0),
)
ACTIONS = (Action(path=f"{PATH}/read", causes=NOTHING, run=_mark_read, scope="viewer"),)
