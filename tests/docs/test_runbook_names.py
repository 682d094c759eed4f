"""The runbook names only commands that parse, and alerts and metrics that exist: it is read at night, under pressure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documented_commands import CommandTree, in_page
from tests.docs.test_alerts import metrics, rules

TEXT = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text(encoding="utf-8")
ALERT = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`")
"""Two or more words in one, each with a capital letter: in the runbook only alerts are written like this."""
METRIC = re.compile(r"`((?:webhook|clinic|onceward)_[a-z_]+_total)\b")


def unknown_names(text: str) -> set[str]:
    """Return the alerts and metrics in a text that do not exist."""
    return (set(ALERT.findall(text)) - set(rules())) | (set(METRIC.findall(text)) - set(metrics()))


def test_every_command_of_the_runbook_parses() -> None:
    tree = CommandTree()
    commands = list(in_page(TEXT, "docs/runbook.md"))
    assert len(commands) > 15
    assert [f"{each} ({problem})" for each in commands if (problem := tree.problem_of(each))] == []


def test_every_alert_and_metric_of_the_runbook_exists() -> None:
    assert {"WorkWaits", "WebhookDeadLetters"} <= set(ALERT.findall(TEXT))
    assert METRIC.findall(TEXT)
    assert unknown_names(TEXT) == set()


@pytest.mark.parametrize("text", ["The alert `DeadLetters` fires.", "Look at `webhook_lost_total` by reason."])
def test_a_wrong_name_is_found(text: str) -> None:
    assert len(unknown_names(text)) == 1
