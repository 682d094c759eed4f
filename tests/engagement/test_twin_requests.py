"""Twin requests to engagement: at once they leave what one would. See `tests/twins.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Onceward
from onceward_apps.engagement import checks
from tests import twins
from tests.engagement.site import URL, Site, add_user, ago, opened
from tests.twins import Case, Cases

PAGES = "/dashboard/engagement"
MANY = 60
VALID = {
    "users": "select count(*) from engagement.user_profiles",
    "states": "select count(*) from engagement.user_engagement_states",
    "active": "select count(*) from engagement.user_engagement_states where state = 'active'",
    "opted out": "select count(*) from engagement.user_profiles where reengagement_opt_out",
    "transactions": "select count(*) from engagement.transactions",
    "pauses": "select count(*) from engagement.pauses",
    "transitions": "select count(*) from engagement.transitions",
    "recipients": "select count(*) from onceward.recipients",
    "messages": f"select count(*) from onceward.messages where status <> 'cancelled' and {twins.NO_NOTICE}",
    "published": "select count(*) from onceward.published",
}
EVERYTHING = {
    "messages ever": f"select count(*) from onceward.messages where {twins.NO_NOTICE}",
    "jobs": twins.JOBS,
    "audit": "select count(*) from onceward.audit_log where action <> 'organization.acted_for'",
}


class Stage(twins.Stage):
    """A site on a port. Users who got a goodbye are active again after activity."""

    valid = VALID
    everything = EVERYTHING

    def __init__(self, site: Site) -> None:
        super().__init__(site.url, site.db)
        self.site = site
        self.staff = {"authorization": f"Bearer {site.key}"}

    async def is_idle(self) -> bool:
        return True  # no worker runs: a job is counted when it is queued

    async def users(self, number: int, *, days: float = 20) -> list[str]:
        """Users who got a goodbye if their last activity was 20 days ago."""
        made = [await add_user(self.site, days=days) for _ in range(number)]
        if days > 14:
            await self.site.run("engagement-daily")
        return made


async def profile(stage: Stage) -> Case:
    body = {"whatsapp_jid": "+5511987654321", "locale": "pt-BR", "last_activity_at": ago(days=1)}
    others = [{**body, "whatsapp_jid": "5511987654321@s.whatsapp.net"}, {**body, "last_activity_at": ago(days=2)}]
    return Case(f"{URL}/users/{uuid4()}", body, others, stage.staff)


async def changed_profile(stage: Stage) -> Case:
    [user] = await stage.users(1, days=1)
    body = {"locale": "en", "reengagement_opt_out": True, "preferred_destination": "group"}
    return Case(f"{URL}/users/{user}", body, [{"reengagement_opt_out": True}], stage.staff)


async def opt_out(stage: Stage) -> Case:
    [user] = await stage.users(1)
    return Case(f"{URL}/users/{user}/opt-out", {}, [{"opted_out": True}], stage.staff)


async def activity(stage: Stage) -> Case:
    users = await stage.users(3)
    body = {"activity": [{"user_id": user, "at": ago(hours=1)} for user in users]}
    others = [{"activity": body["activity"][::-1]}, {"activity": body["activity"] * 2}]
    return Case(f"{URL}/activity", body, others, stage.staff)


async def transactions(stage: Stage) -> Case:
    users = await stage.users(3)
    new = [{"id": str(uuid4()), "user_id": users[n % 3], "created_at": ago(hours=1)} for n in range(MANY)]
    others: list[dict[str, Any]] = [{"transactions": new[::-1]}, {"transactions": new[MANY // 2 :] + new}]
    return Case(f"{URL}/transactions", {"transactions": new}, others, stage.staff)


async def sample(stage: Stage) -> Case:
    body = {"number": "+5511911112222", "message": "goodbye"}
    why = "a person who asks for a test message again wants to see it again"
    return Case(f"{URL}/test-messages", body, [], stage.staff, several=why)


async def opt_out_on_the_dashboard(stage: Stage) -> Case:
    [user] = await stage.users(1)
    return Case(f"{PAGES}/opt-out", {"user": user}, [{"user": user, "opted_out": "yes"}], stage.staff, form=True)


def on_the_desk(name: str) -> Any:
    async def press(stage: Stage) -> Case:
        [user] = await stage.users(1)
        if name == "allow":
            await stage.db.execute(
                "update engagement.user_profiles set reengagement_opt_out = true where user_id = $1", UUID(str(user))
            )
        body = {"ids": user, "step": "run", "reason": "asked on the phone"}
        return Case(f"{PAGES}/users/do/{name}", body, [{**body, "n": "1"}], stage.staff, form=True)

    return press


async def sample_on_the_dashboard(stage: Stage) -> Case:
    body = {"number": "+5511911112222", "message": "goodbye", "locale": "pt"}
    why = "a person who asks for a test message again wants to see it again"
    return Case(f"{PAGES}/test", body, [], stage.staff, form=True, several=why, keyed=False)


def campaign(verb: str) -> Any:
    async def press(stage: Stage) -> Case:
        await stage.db.execute("delete from engagement.pauses")
        if verb == "resume":
            await stage.db.execute(
                "insert into engagement.pauses (organization_id, campaign, paused_by)"
                " select organization_id, 'goodbye', 'test' from onceward.organizations on conflict do nothing"
            )
        return Case(f"{PAGES}/{verb}", {"campaign": "goodbye"}, [], stage.staff, form=True)

    return press


CASES: Cases[Stage] = {
    f"PUT {URL}/users/{{user_id}}": profile,
    f"PUT {URL}/users/{{user_id}} (known)": changed_profile,
    f"POST {URL}/users/{{user_id}}/opt-out": opt_out,
    f"POST {URL}/activity": activity,
    f"POST {URL}/transactions": transactions,
    f"POST {URL}/test-messages": sample,
    f"POST {PAGES}/opt-out": opt_out_on_the_dashboard,
    f"POST {PAGES}/users/do/stop": on_the_desk("stop"),
    f"POST {PAGES}/users/do/allow": on_the_desk("allow"),
    f"POST {PAGES}/test": sample_on_the_dashboard,
    f"POST {PAGES}/pause": campaign("pause"),
    f"POST {PAGES}/resume": campaign("resume"),
}


@pytest.fixture
async def stage(database_url: str, tmp_path: Path, app: Onceward) -> AsyncIterator[Stage]:
    async with opened(database_url, tmp_path, app) as site:
        yield Stage(site)


def test_every_route_has_a_case(app: Onceward) -> None:
    assert twins.routes_of(CASES) == twins.written_routes(app)


async def test_identical_and_nearly_identical_requests_at_once_leave_what_one_would(stage: Stage) -> None:
    await twins.expect_twins_to_leave_one(stage, CASES, checks.CHECKS)
