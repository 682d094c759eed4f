"""Pages of engagement in the dashboard: the funnel with its runs, a dry run, and one user's history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from onceward.trust import Identity
from onceward.web import Action, ActionRefused, Done, Missing, Page, Pages, Site, View, back
from onceward_apps.engagement import campaigns, eligibility
from onceward_apps.engagement.activity import set_opt_out
from onceward_apps.engagement.app import settings
from onceward_apps.engagement.errors import EngagementError, UnknownUser
from onceward_apps.engagement.message_queue import send_test
from onceward_apps.engagement.model import CAMPAIGNS, Campaign
from onceward_apps.engagement.overview import next_runs, overview, returned, user_history
from onceward_apps.engagement.store import views

PATH = "/dashboard/engagement"
LISTED = 200
STATE = {
    "active": "Active",
    "goodbye_sent": "Got the goodbye",
    "remind_later": "Asked for later",
    "dormant": "Dormant",
    "help_flow": "Wants help",
}
RUN = {"engagement-daily": "Daily run", "engagement-weekly": "Weekly review"}
"""What people read instead of states and schedules."""


async def load(view: View) -> dict[str, Any]:
    """Load the funnel, the runs and what the goodbye achieves."""
    seen = await overview(view.conn, view.organization)
    runs = await views.runs(view.conn, view.organization, limit=10)
    failed = [error["user_id"] for run in runs for error in run["errors"]]
    return {
        "title": "Engagement",
        **seen,
        "runs": runs,
        "numbers": await views.numbers(view.conn, view.organization, failed),
        "STATE": STATE,
        "RUN": RUN,
        "next": next_runs(seen["now"]),
        "returns": await returned(view.conn, view.organization),
        "lost": [dict(row) for row in await views.unreachable(view.conn, view.organization, limit=20)],
        "holdout_percent": settings().holdout_percent,
    }


async def load_preview(view: View) -> dict[str, Any]:
    """Load what a run would do now."""
    job: Literal["daily", "weekly"] = "weekly" if view.text("job") == "weekly" else "daily"
    if view.organization is None:
        return {"title": "Dry run", "crumbs": ("Engagement", PATH), "choose": True, "job": job}
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    users: list[dict[str, Any]] = []
    async for each in eligibility.preview(view.conn, view.organization, job):
        counts[each.action] += 1
        checks[each.check_type] += 1
        if each.action == "nothing":
            reasons[each.why] += 1
        if len(users) < LISTED:
            users.append(asdict(each))
    both = await campaigns.campaigns(view.conn, view.site.engine, view.organization)
    shown: Campaign = "weekly_review" if job == "weekly" else "goodbye"
    return {
        "title": "Dry run",
        "crumbs": ("Engagement", PATH),
        "choose": False,
        "job": job,
        "campaign": next(each for each in both if each.campaign == shown),
        "counts": counts.most_common(),
        "reasons": reasons.most_common(),
        "users": users,
        "more": sum(counts.values()) - len(users),
        "most_read": eligibility.MOST_READ if eligibility.MOST_READ in checks.values() else 0,
    }


async def load_user(view: View) -> dict[str, Any]:
    """Load one user with everything that happened."""
    user = _user(view.text("id"))
    own = [view.organization] if view.organization is not None else await views.organizations_with(view.conn, user)
    if len(own) != 1:
        raise Missing("choose an organization to see its users")
    try:
        seen = await user_history(view.conn, own[0], user)
    except UnknownUser as error:
        raise Missing(str(error)) from None
    # The pages of the engine are for viewers of the organization.
    return {"title": "User", "crumbs": ("Engagement", PATH), "may_follow": view.may("viewer"), "STATE": STATE, **seen}


def _user(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Missing(f"{text!r} is not the id of a user: ids are UUIDs") from None


async def _opt_out(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, opted_out = _user(form.get("user", "")), form.get("opted_out") != "no"
    async with site.engine.transaction(organization=_organization(identity)) as tx:
        try:
            await set_opt_out(tx, user_id, opted_out, actor=identity.actor)
        except EngagementError as error:
            raise ActionRefused(str(error)) from None
    words = "gets no messages any more" if opted_out else "gets messages again"
    return Done(f"{PATH}/user?id={user_id}", f"User {user_id} {words}.")


async def _test(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    message: Literal["goodbye", "weekly_review"] = (
        "weekly_review" if form.get("message") == "weekly_review" else "goodbye"
    )
    locale = "pt" if form.get("locale") == "pt" else "en"
    async with site.engine.transaction(organization=_organization(identity)) as tx:
        try:
            queued = await send_test(tx, message, form.get("number", "")[:40], locale=locale, actor=identity.actor)
        except EngagementError as error:
            raise ActionRefused(str(error)) from None
    return Done(back(form, f"{PATH}/preview"), f"Message {queued.id} is queued; a worker sends it to you.")


async def _pause(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    campaign = _campaign(form.get("campaign", ""))
    organization = _organization(identity)
    async with site.engine.transaction(organization=organization) as tx:
        await campaigns.pause(tx, campaign, actor=identity.actor)
        [state] = [
            each for each in await campaigns.campaigns(tx, site.engine, organization) if each.campaign == campaign
        ]
    still = f" {state.queued} messages were queued before and are still sent." if state.queued else ""
    return Done(back(form, f"{PATH}/preview"), f"The campaign is paused: runs queue no message of it.{still}")


async def _resume(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    campaign = _campaign(form.get("campaign", ""))
    async with site.engine.transaction(organization=_organization(identity)) as tx:
        await campaigns.resume(tx, campaign, actor=identity.actor)
    return Done(back(form, f"{PATH}/preview"), "The next run queues messages of the campaign again.")


def _campaign(text: str) -> Campaign:
    for campaign in CAMPAIGNS:
        if text == campaign:
            return campaign
    raise ActionRefused(f"campaign {text[:40]!r} does not exist; choose one of {', '.join(CAMPAIGNS)}")


def _organization(identity: Identity) -> UUID:
    if identity.organization is None:
        raise ActionRefused("choose an organization first")
    return identity.organization


PAGES = Pages(
    pages=(
        Page(
            name="engagement_preview",
            path=f"{PATH}/preview",
            title="Dry run",
            section="engagement",
            load=load_preview,
            roles=("engagement.support",),
            every_s=None,
        ),
        Page(
            name="engagement_user",
            path=f"{PATH}/user",
            title="User",
            section="engagement",
            load=load_user,
            roles=("engagement.support",),
            by_role=True,
            every_s=5.0,
        ),
    ),
    actions=(
        Action(path=f"{PATH}/opt-out", causes=("call",), run=_opt_out),
        Action(path=f"{PATH}/test", causes=("mail",), run=_test),
        Action(path=f"{PATH}/pause", causes=("nothing",), run=_pause),
        Action(path=f"{PATH}/resume", causes=("nothing",), run=_resume),
    ),
    templates=(Path(__file__).parent,),
)
