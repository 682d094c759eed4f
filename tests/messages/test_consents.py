"""Every opt-in and opt-out is a record: who, when, how, and by which text. An erasure keeps it under a hash."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.messages import consents, opt_in, opt_out
from onceward.messages.erasers import ERASERS
from onceward.messages.preferences import unsubscribe_by_token
from onceward.runtime import FEATURES
from onceward.trust.erase import erase
from onceward.trust.export import export


async def listed(*args: str) -> list[dict[str, Any]]:
    """Return what `onceward consents` prints."""
    result = await asyncio.to_thread(CliRunner().invoke, build(FEATURES), ["consents", *args, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_decisions_are_recorded_once_and_survive_an_erasure(
    office, wires, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    here = await office(wires.smtp)
    await here.send("news")
    token = await here.db.fetchval("select token from onceward.messages")
    await unsubscribe_by_token(here.db, token, source="link")
    async with here.engine.transaction() as tx:
        for _ in range(2):
            await opt_in(tx, "Ada@example.org", category="newsletter", source="form", wording="Yes, send me news")
        for _ in range(2):
            await opt_out(tx, "ada@example.org", channel="sms", source="reply", wording="STOP")
        found = await consents(tx, "ada@example.org")
    assert [(each["decision"], each["channel"], each["category"], each["source"]) for each in found] == [
        ("opt_out", "*", "newsletter", "link"),
        ("opt_in", "*", "newsletter", "form"),
        ("opt_out", "sms", "*", "reply"),
    ]
    assert found[0]["message"] is not None
    assert found[0]["wording"].startswith("the unsubscribe link of news")
    assert [each["wording"] for each in found[1:]] == ["Yes, send me news", "STOP"]
    shown = await listed("show", "Ada@example.org")
    assert [each["wording"] for each in shown[1:]] == ["Yes, send me news", "STOP"]
    assert [each["id"] for each in await listed("ls", "--limit", "2")] == [shown[2]["id"], shown[1]["id"]]
    [oldest] = await listed("ls", "--all", "--decision", "opt_out", "--before", str(shown[2]["id"]))
    assert (oldest["recipient"], oldest["source"]) == ("ada@example.org", "link")
    assert await listed("show", "bob@example.org") == []
    exported = await export(here.db, "ada@example.org", ERASERS, organization=None, actor="test")
    rows = [each["row"] for each in exported["data"]["opt-ins and opt-outs"]]
    assert [(row["decision"], row["wording"]) for row in rows[1:]] == [
        ("opt_in", "Yes, send me news"),
        ("opt_out", "STOP"),
    ]
    await erase(here.db, ["ada@example.org"], ERASERS, organization=None, actor="test")
    rows = await here.db.fetch("select recipient, decision, wording from onceward.consents order by id")
    assert [row["decision"] for row in rows] == ["opt_out", "opt_in", "opt_out"]
    assert all(row["recipient"].startswith("erased:") and row["wording"] is None for row in rows)


async def test_an_opt_out_at_the_service_is_recorded(office, wires) -> None:
    here = await office(wires.sms)
    here.sims.twilio.refuse_all(21610)
    id = await here.send(to="+4915112345678", channel="sms")
    await here.start_worker()
    assert (await here.until(id))["status"] == "dead_letter"
    row = await here.db.fetchrow("select recipient, channel, decision, source from onceward.consents")
    assert tuple(row) == ("+4915112345678", "sms", "opt_out", "service")
