"""`sources`, `events` and `trigger` as a user types them, against a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from onceward.cli.commands import build
from onceward.db import Database
from onceward.inbox.commands import trigger
from onceward.inbox.sources import NewSource, add
from onceward.runtime import FEATURES
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
    """The server and the first command are processes; the others run in this one, which is quicker."""
    Path(cli.directory / "shop.py").write_text(APP)
    env = {
        "ONCEWARD_DATABASE_URL": database_url,
        "ONCEWARD_PORT": "0",
        "ONCEWARD_DATA_DIR": str(cli.directory / ".onceward"),
    }
    added = cli("sources", "add", "stripe", "--secret", "-", "--json", stdin="whsec_secret_of_the_commands\n", **env)
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["url"].endswith("/webhooks/stripe")
    server = cli.start("up", "shop:app", **env)
    runner, line = CliRunner(), build(FEATURES)

    def run(*words: str) -> Result:
        return runner.invoke(line, words, env=env)

    def succeed(*words: str) -> str:
        done = run(*words)
        assert done.exit_code == 0, f"{words}: {done.output} {done.exception!r}"
        return done.stdout

    assert "whsec" not in added.stdout + succeed("sources", "ls", "--json")
    assert server.stdout is not None
    up = next((line for line in server.stdout if " is up at " in line), None)
    assert up is not None, (cli.directory / "stderr.log").read_text()[-3000:]
    url = up.split(" at ")[1].split()[0] + "/webhooks/stripe"

    succeed("trigger", "stripe", "charge.succeeded", "-f", "id=evt_cli", "--duplicate", "--url", url, "--json")
    for wrong in ("--stale", "--bad-signature"):
        succeed("trigger", "stripe", "charge.succeeded", wrong, "--url", url)
    succeed("trigger", "stripe", "charge.failed", "-f", "id=evt_dead", "--url", url)
    burst = succeed("trigger", "stripe", "ping", "--rate", "50", "--for", "1s", "--url", url, "--json")
    assert set(json.loads(burst)["statuses"]) == {"200"}

    listed = json.loads(succeed("events", "ls", "--type", "charge.failed", "--json"))
    assert [event["event_id"] for event in listed] == ["evt_dead"]
    shown = json.loads(succeed("events", "show", "evt_cli"))
    assert (shown["source"], shown["type"]) == ("stripe", "charge.succeeded")
    assert run("events", "replay").exit_code != 0
    replayed = succeed("events", "replay", "evt_dead", "--reason", "try again", "--json")
    assert len(json.loads(replayed)["done"]) == 1, replayed
    forwarded = succeed("events", "forward", "--to", url, "--type", "charge.succeeded", "--since", "1h", "--once")
    assert ": 200 in" in forwarded
    succeed("sources", "pause", "stripe")
    refused = run("sources", "rm", "stripe")
    assert (refused.exit_code, "resume it first" in str(refused.exception)) == (1, True), refused.output
    succeed("sources", "resume", "stripe")
    assert succeed("sources", "rm", "stripe") == "stripe was deleted\n"


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
