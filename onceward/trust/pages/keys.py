"""The page of API keys: create a key, which is shown once, and revoke it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from onceward.db import Transaction
from onceward.trust.identity import PERMISSIONS, Identity
from onceward.trust.key_restrictions import KeyRestrictions
from onceward.trust.keys import create_key, list_keys, revoke_key
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING

LIFETIMES = {"30": timedelta(days=30), "365": timedelta(days=365), "": None}


async def load(view: View) -> dict[str, Any]:
    keys = await list_keys(cast(Transaction, view.conn), organization=view.organization)
    return {"title": "Keys", "keys": keys, "instance": view.everything, "now": datetime.now(UTC)}


async def _create(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    scope = form.get("scope", "")
    if scope not in (("admin",) if identity.organization is None else ("viewer", "operator", "owner", *PERMISSIONS)):
        raise ActionRefused(f"scope {scope!r} cannot be given to a key of this organization or instance")
    lifetime = LIFETIMES.get(form.get("days", ""))
    async with site.database.transaction(role="engine") as tx:
        created = await create_key(
            tx,
            name=form.get("name", "").strip(),
            organization=identity.organization,
            scopes=[scope],
            restrictions=KeyRestrictions.checked(*(_words(form, name) for name in ("apps", "sources", "addresses"))),
            expires_at=None if lifetime is None else datetime.now(UTC) + lifetime,
            actor=identity,
        )
    return Done(page="made_key.html", context={"title": "New key", "made": created})


def _words(form: Mapping[str, str], name: str) -> list[str]:
    """Return the values of a field that has several, separated by commas or spaces."""
    return form.get(name, "").replace(",", " ").split()


async def _revoke(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    async with site.database.transaction(role="engine") as tx:
        key = await revoke_key(
            tx,
            form.get("key", "")[:100],
            organization=identity.organization,
            actor=identity,
            reason=form.get("reason", "")[:500] or None,
        )
    return Done("/dashboard/keys", f"Key {key.name} ({key.prefix}) is revoked.")


PAGES = (
    Page(
        name="keys",
        path="/dashboard/keys",
        title="Keys",
        section="keys",
        load=load,
        scope="owner",
        template="keys.html",
        every_s=10.0,
    ),
)
ACTIONS = (
    Action(path="/dashboard/keys", causes=NOTHING, run=_create, scope="owner", recent=True),
    Action(path="/dashboard/keys/revoke", causes=NOTHING, run=_revoke, scope="owner"),
)
