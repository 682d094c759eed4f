"""An organization speaks over Slack in its own workspace only, and no value becomes Slack markup."""

from __future__ import annotations

from typing import Any

import aiohttp

from onceward.db import Database
from onceward.integrations.slack import SlackSimulator
from onceward.messages import Template, render
from onceward.services import service_settings
from onceward.testing import until
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


def test_only_the_template_writes_slack_markup() -> None:
    words = {"subject": "{{ name }}", "text": "plain", "slack": "<https://ours.example|Open> {{ name }} {{ 3 }}"}
    rendered = render(Template("x", {"en": words}), {"name": LURE}, locale="en", channel="slack")
    escaped = "&lt;!channel&gt; &lt;https://evil.example|Reset your password&gt; &amp; more"
    assert rendered.text == f"<https://ours.example|Open> {escaped} 3"
    assert rendered.subject == escaped
