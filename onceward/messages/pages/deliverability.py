"""The dashboard page of what keeps messages from arriving: suppressed addresses, unproven domains, refused accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.messages.recipient import EMAIL
from onceward.messages.suppression import remove_suppression, suppress_by_hand
from onceward.statements import read_statement, scoped
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done, reason_of
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING
from onceward.windows import MOST_EXAMINED

PATH = "/dashboard/sending"
SUPPRESSIONS = scoped(read_statement("messages", "page_suppressions"))
STATES = read_statement("messages", "page_service_states")
DOMAINS = read_statement("messages", "page_domains")
SHOWN = 100


async def load(view: View) -> dict[str, Any]:
    find = view.text("find")
    arguments = (find.lower(), SHOWN + 1, view.organization, MOST_EXAMINED if find else SHOWN + 1)
    rows = await view.conn.fetch(SUPPRESSIONS.of(view.organization), *arguments)
    return {
        "title": "Sending",
        "find": find,
        "suppressions": rows[:SHOWN],
        "has_more": len(rows) > SHOWN,
        "shown": SHOWN,
        "states": await view.conn.fetch(STATES),
        # The table of the keys is closed to the role of pages; this statement reads no key.
        "domains": await view.site.database.fetch(DOMAINS, view.organization),
    }


async def _suppress(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    address, reason = form.get("address", "").strip()[:320], reason_of(form)
    if EMAIL.match(address) is None:
        raise ActionRefused("the field `address` must be a mail address")
    async with site.database.transaction(role="engine", organization=identity.organization) as tx:
        if not await suppress_by_hand(tx, address, source="dashboard", by=identity, reason=reason):
            raise ActionRefused("the address is suppressed already")
    return Done(PATH, "The address gets no more mail.")


async def _allow(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    address, reason = form.get("address", "").strip()[:320], reason_of(form)
    async with site.database.transaction(role="engine", organization=identity.organization) as tx:
        whose = identity.organization
        if not await remove_suppression(tx, address, organization=whose, by=identity, reason=reason):
            raise ActionRefused("the address is not suppressed here")
    return Done(PATH, "Mail to this address is sent again.")


PAGES = (
    Page(
        name="sending", path=PATH, title="Sending", section="sending", load=load, template="sending.html", every_s=10.0
    ),
)
ACTIONS = (
    Action(path=f"{PATH}/suppress", causes=NOTHING, run=_suppress),
    Action(path=f"{PATH}/allow", causes=NOTHING, run=_allow),
)
