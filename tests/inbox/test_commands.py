"""`sources`, `events` and `trigger` as a user types them, against a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from onceward.db import Database
from onceward.inbox.commands import trigger
from onceward.inbox.sources import NewSource, add
from onceward.trust import SecretBox
from tests.cli.conftest import CommandLine, cli

__all__ = ["cli"]

APP = """
from onceward import Event, Onceward, Tx

app = Onceward("shop")


@app.on("stripe", "charge.succeeded")
async def complete(event: Event, tx: Tx) -> dict:
    return {"amount": event.data["amount"]}


@app.on("stripe", "charge.failed", retry=[])
async def fail(event: Event, tx: Tx) -> None:
    raise RuntimeError("no")
"""


@pytest.mark.timeout(300)
def test_a_source_is_added_triggered_listed_and_replayed(cli: CommandLine, database_url: str) -> None:
    Path(cli.directory / "shop.py").write_text(APP)
    env = {"ONCEWARD_DATABASE_URL": database_url, "ONCEWARD_PORT": "0"}
    added = cli("sources", "add", "stripe", "--secret", "-", "--json", stdin="whsec_secret_of_the_commands\n", **env)
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["url"].endswith("/webhooks/stripe")
    assert "whsec" not in added.stdout + cli("sources", "ls", "--json", **env).stdout
    server = cli.start("up", "shop:app", **env)
    assert server.stdout is not None
    up = next((line for line in server.stdout if " is up at " in line), None)
    assert up is not None, (cli.directory / "stderr.log").read_text()[-3000:]
    url = up.split(" at ")[1].split()[0] + "/webhooks/stripe"

    sent = cli(
        "trigger", "stripe", "charge.succeeded", "-f", "id=evt_cli", "--duplicate", "--url", url, "--json", **env
    )
    assert sent.returncode == 0, sent.stdout + sent.stderr
    for wrong in ("--stale", "--bad-signature"):
        refused = cli("trigger", "stripe", "charge.succeeded", wrong, "--url", url, **env)
        assert refused.returncode == 0, refused.stdout + refused.stderr
    assert cli("trigger", "stripe", "charge.failed", "-f", "id=evt_dead", "--url", url, **env).returncode == 0
    burst = cli("trigger", "stripe", "ping", "--rate", "50", "--for", "1s", "--url", url, "--json", **env)
    assert set(json.loads(burst.stdout)["statuses"]) == {"200"}

    listed = json.loads(cli("events", "ls", "--type", "charge.failed", "--json", **env).stdout)
    assert [event["event_id"] for event in listed] == ["evt_dead"]
    shown = json.loads(cli("events", "show", "evt_cli", **env).stdout)
    assert (shown["source"], shown["type"]) == ("stripe", "charge.succeeded")
    assert cli("events", "replay", **env).returncode == 2
    replayed = cli("events", "replay", "evt_dead", "--reason", "try again", "--json", **env)
    assert len(json.loads(replayed.stdout)["done"]) == 1, replayed.stdout
    forwarded = cli("events", "forward", "--to", url, "--type", "charge.succeeded", "--since", "1h", "--once", **env)
    assert ": 200 in" in forwarded.stdout, forwarded.stdout + forwarded.stderr
    assert cli("sources", "pause", "stripe", **env).returncode == 0
    refused = cli("sources", "rm", "stripe", **env)
    assert (refused.returncode, "resume it first" in refused.stderr) == (1, True), refused.stderr
    assert cli("sources", "resume", "stripe", **env).returncode == 0
    assert cli("sources", "rm", "stripe", **env).stdout == "stripe was deleted\n"


async def test_a_secret_of_the_command_line_signs_for_the_public_url_of_the_source(
    db: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a-key-of-the-tests-which-is-long-enough"
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_SECRET_KEY", key)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
    source = NewSource(name="sms", provider="twilio", secrets=("old",), public_url="https://hooks.example.org")
    async with db.transaction(role="engine") as tx:
        await add(tx, SecretBox([key]), source, actor="test")
    for url in (None, "http://127.0.0.1:8400/webhooks/sms"):
        config = await asyncio.to_thread(trigger._config, "twilio", "sms", "new", url)
        assert (config.secrets, config.public_url) == (("new",), "https://hooks.example.org")
    config = await asyncio.to_thread(trigger._config, "twilio", "unknown", "new", "https://shop.example.com/webhooks/x")
    assert config.public_url == "https://shop.example.com"
