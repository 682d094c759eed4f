"""An organization speaks over Slack in its own workspace only, and no value becomes Slack markup."""

from __future__ import annotations

from typing import Any

import aiohttp

from onceward.db import Database
from onceward.integrations.slack import SlackSimulator
from onceward.messages import Template, render
from onceward.messages.service import MessageService
from onceward.services import service_settings
from onceward.testing import until
from onceward.trust.organizations import add_user, set_member
from tests.web.operating import client_for, started

LURE = "<!channel> <https://evil.example|Reset your password> & more"


async def test_an_organization_posts_into_its_own_workspace_only(db: Database, database_url: str) -> None:
    slack = SlackSimulator()
    await slack.start()
    process = await started(
        database_url,
        service_settings("slack", bot_token="xoxb-platform", channel="#platform"),
        roles={"web", "worker"},
        simulators={"slack": slack.url},
    )
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        ours = await client_for(db, session, "ours", "owner")
        new = {"type": "t", "recipients": [], "channels": ["slack"], "message": {"title": LURE, "body": LURE}}
        status, problem = await ours("POST", "/notifications", new)
        assert (status, "slack.bot_token" in problem["detail"]) == (422, True)
        for name, value in (("slack.bot_token", "xoxb-ours"), ("slack.channel", "#ours")):
            assert (await ours("PUT", f"/secrets/{name}", {"value": value}))[0] == 204
        assert (await ours("POST", "/notifications", new))[0] == 202

        async def posted() -> list[Any]:
            return slack.messages

        [message] = await until(posted)
        assert message["channel"] == "#ours"
        assert "<" not in message["text"]
        assert "&lt;!channel&gt;" in message["text"]
    await process.stop()
    await slack.stop()


async def test_a_notice_of_an_organization_goes_to_its_owners_and_its_own_slack(
    db: Database, database_url: str
) -> None:
    slack = SlackSimulator()
    await slack.start()
    process = await started(
        database_url,
        service_settings("slack", bot_token="xoxb-platform", channel="#platform"),
        roles={"web", "worker"},
        simulators={"slack": slack.url},
        admin_emails=("ops@example.org",),
    )
    assert process.web is not None
    assert process.context is not None
    notifier = process.context.part(MessageService).notifier
    notifier._gather_s = 0.0
    async with aiohttp.ClientSession(process.web.url) as session:
        ours = await client_for(db, session, "ours", "owner")
        theirs = await client_for(db, session, "theirs", "owner")
        assert ours.organization is not None
        async with db.transaction(role="engine") as tx:
            await add_user(tx, "owner@ours.example", actor="test")
            await set_member(tx, ours.organization, "owner@ours.example", "owner", actor="test")
        for name, value in (("slack.bot_token", "xoxb-ours"), ("slack.channel", "#ours")):
            assert (await ours("PUT", f"/secrets/{name}", {"value": value}))[0] == 204
        for organization, title in ((ours.organization, LURE), (theirs.organization, "theirs"), (None, "platform's")):
            async with process.context.engine.transaction(organization=organization) as tx:
                await tx.notify_admins("LATE", "warn", title)
        await notifier.step()
        await until(lambda: len(slack.messages) == 2)
        posted = {message["channel"]: message["text"] for message in slack.messages}
        assert posted.keys() == {"#ours", "#platform"}
        assert "&lt;!channel&gt;" in posted["#ours"]
        assert "<" not in posted["#ours"]
        assert "platform&#39;s" in posted["#platform"] or "platform's" in posted["#platform"]
        query = "select organization_id, channel, recipient from onceward.messages where channel <> 'slack'"
        sent = {(row["organization_id"], row["channel"], row["recipient"]) for row in await db.fetch(query)}
        assert sent == {
            (ours.organization, "email", "owner@ours.example"),
            (ours.organization, "dashboard", "admins"),
            (None, "email", "ops@example.org"),
            (None, "dashboard", "admins"),
        }
        count = "select count(*) from onceward.messages where organization_id is null and channel = 'email'"
        assert await db.fetchval(count) == 2  # of the organization without owners, and of the installation
        assert await notifier.step() == 0
    await process.stop()
    await slack.stop()


def test_only_the_template_writes_slack_markup() -> None:
    words = {"subject": "{{ name }}", "text": "plain", "slack": "<https://ours.example|Open> {{ name }} {{ 3 }}"}
    rendered = render(Template("x", {"en": words}), {"name": LURE}, locale="en", channel="slack")
    escaped = "&lt;!channel&gt; &lt;https://evil.example|Reset your password&gt; &amp; more"
    assert rendered.text == f"<https://ours.example|Open> {escaped} 3"
    assert rendered.subject == escaped
