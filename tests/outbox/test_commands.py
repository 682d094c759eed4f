"""The command line: endpoints, deliveries, and the local receiver."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.outbox.commands.listen import ListenReceiver
from onceward.runtime import FEATURES
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint

from .conftest import OutboxBench


@pytest.fixture
def command(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_SECRET_KEY", "a key that is long enough for the tests")
    monkeypatch.setenv("ONCEWARD_ALLOW_LOOPBACK_ENDPOINTS", "true")

    def run(*args: str) -> str:
        result = CliRunner().invoke(build(FEATURES), args)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_endpoints_and_deliveries_from_the_command_line(command: Any) -> None:
    made = json.loads(command("endpoints", "add", "http://127.0.0.1:9999/", "--header", "X-A=1", "--json"))
    id = made["endpoint"]["endpoint_id"]
    assert made["secret"].startswith("whsec_")
    assert [each["endpoint_id"] for each in json.loads(command("endpoints", "ls", "--json"))] == [id]
    assert json.loads(command("endpoints", "show", id))["header_names"] == ["X-A"]
    assert "changed" in command("endpoints", "set", id, "--rate", "5")
    assert command("endpoints", "rotate", id).startswith("whsec_")
    assert "is queued" in command("endpoints", "test", id)
    [delivery] = json.loads(command("deliveries", "ls", "--json"))
    assert delivery["type"] == "endpoint.test"
    shown = json.loads(command("deliveries", "show", str(delivery["id"])))
    assert "endpoint.test" in shown["body"]
    assert "sent again" in command("deliveries", "resend", str(delivery["id"]))
    assert "started" in command("endpoints", "recover", id, "--since", "2020-01-01")
    assert "started" in command("deliveries", "replay", "--since", "2020-01-01", "--type", "endpoint.test")
    resends = json.loads(command("deliveries", "resends", "--json"))
    assert "cancelled" in command("deliveries", "cancel", str(resends[0]["id"]))
    assert "disabled" in command("endpoints", "disable", id)
    assert "enabled" in command("endpoints", "enable", id)
    assert "endpoint.test" in command("endpoints", "types")
    assert "deleted" in command("endpoints", "rm", id)
    assert "no endpoints" in command("endpoints", "ls")


async def test_the_receiver_distinguishes_good_signatures_from_bad_ones(bench: OutboxBench, capsys: Any) -> None:
    class Listening(CustomerEndpoint):
        receiver: ListenReceiver

        async def _receive(self, request: Any) -> Any:
            return await self.receiver.receive(request)

    endpoint = Listening()
    await endpoint.start()
    made = await bench.register(endpoint.hook_url)
    endpoint.receiver = ListenReceiver(made.secret)
    await bench.start_worker()
    sent = await bench.publish()
    assert (await bench.settled(sent.id))["status"] == "success"
    endpoint.receiver = ListenReceiver("whsec_" + "A" * 32)
    refused = await bench.publish()

    async def tried() -> bool:
        return (await bench.status(refused.id))["response_status"] == 401

    await until(tried)
    printed = capsys.readouterr().out
    assert f"{sent.message_id}  signature valid" in printed
    assert "refused" in printed
    with pytest.raises(ValueError, match="secret"):
        ListenReceiver("whsec_???")
    await endpoint.stop()
