"""`onceward ticketing`: an organizer at the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward_apps.ticketing import app as TICKETING


def test_an_event_is_set_up_listed_and_looked_at(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    cli, runner = build(FEATURES.plus(TICKETING.features())), CliRunner()

    def onceward(*words: str) -> str:
        result = runner.invoke(cli, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    onceward("organizations", "add", "shop")
    venue = onceward("ticketing", "venue", "Hall", "-o", "shop").split()[-1]
    shape = ("--seats", "Stalls:45000:2x5", "--places", "Lawn:15000:20")
    when = ("--starts", "2031-06-21T18:00:00+02:00", "--currency", "EUR")
    onceward("ticketing", "event", "Night", "-o", "shop", "--venue", venue, *when, *shape)
    [event] = json.loads(onceward("ticketing", "events", "-o", "shop", "--json"))
    assert (event["name"], event["status"], event["capacity"]) == ("Night", "on_sale", 30)
    full = json.loads(onceward("ticketing", "occupancy", event["id"], "-o", "shop"))
    assert full["total_available"] == 30
    assert json.loads(onceward("ticketing", "orders", event["id"], "-o", "shop", "--json")) == []
    assert "/doors/" in onceward("ticketing", "door", event["id"], "-o", "shop", "--name", "North")
    [door] = json.loads(onceward("ticketing", "doors", event["id"], "-o", "shop", "--json"))
    assert onceward("ticketing", "end-door", door["id"], "-o", "shop").strip() == f"door {door['id']} is ended"
