"""The alert rules: each asks about metrics and labels that exist, and points to a page that does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.services.outcome import AnswerName
from onceward.telemetry.metrics import declared
from onceward.work.attempt_outcome import CountedOutcome, OutcomeName
from onceward.work.endings import EndOutcome
from onceward_apps.all import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "alerts.yml").read_text(encoding="utf-8")
WORDS = frozenset(
    {
        "sum",
        "max",
        "abs",
        "and",
        "or",
        "predict_linear",
        "deriv",
        "rate",
        "increase",
        "histogram_quantile",
        "clamp_min",
        "by",
        "le",
    }
)


def rules() -> dict[str, str]:
    """The expression of each alert, on one line."""
    found: dict[str, str] = {}
    for block in re.split(r"\n\s*- alert: ", TEXT)[1:]:
        name, _, rest = block.partition("\n")
        expression = re.search(r"expr: (?:>\n)?(.*?)\n\s*(?:for|labels):", rest, re.DOTALL)
        assert expression is not None, f"alert {name} has no expr"
        found[name] = " ".join(expression[1].split())
    return found


def metrics() -> dict[str, set[str]]:
    """Every series that is exposed, with its labels."""
    FEATURES.plus(app.features()).load("metrics")
    found: dict[str, set[str]] = {}
    for metric in declared():
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        for end in ends:
            found[metric.name + end] = {*metric.labels, *(["le"] if end == "_bucket" else [])}
    return found


@pytest.mark.parametrize("name", rules())
def test_an_alert_asks_about_what_is_counted(name: str) -> None:
    expression, known = rules()[name], metrics()
    matchers = re.findall(r"([a-z_]+)\{(.*?)\}", expression)
    bare = re.sub(r"\{.*?\}|\[.*?\]|\bby \(.*?\)", "", expression)
    used = set(re.findall(r"\b[a-z][a-z_]+\b", bare)) - WORDS
    assert used, f"{name} asks about nothing"
    assert used <= set(known), f"{name} asks about {sorted(used - set(known))}, which nobody counts"
    for metric, inside in matchers:
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", inside))
        assert labels <= known[metric], f"{name}: {metric} has no labels {sorted(labels - known[metric])}"
    for grouped in re.findall(r"\bby \((.*?)\)", expression):
        for label in grouped.replace(" ", "").split(","):
            assert all(label in known[metric] for metric in used), f"{name} groups by {label}"


def test_what_was_asked_for_is_watched() -> None:
    wanted = {
        "WebhookSuccessRateLow": "< 0.95",
        "WebhookAnswersSlow": "> 0.5",
        "WebhookDeadLetters": "> 0.01",
        "WorkWaits": "> 300",
        "TicketCreationFails": "< 0.99",
        "SeatConflicts": "> 0.01",
        "QrCodesFail": "> 0.05",
        "MailFails": "> 0.10",
    }
    found = rules()
    assert {name: bound for name, bound in wanted.items() if bound not in found.get(name, "")} == {}


def test_a_runbook_that_an_alert_names_exists() -> None:
    for page, _, anchor in (target.partition("#") for target in re.findall(r"runbook: (\S+)", TEXT)):
        text = (ROOT / page).read_text(encoding="utf-8")
        headings = {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
        assert not anchor or anchor in headings, f"{page} has no heading for #{anchor}"


def test_an_alert_is_declared_by_the_feature_that_counts() -> None:
    """Each rule asks about a metric of the same package, or, in an app, about the app's own tasks or schedules."""
    for feature in FEATURES.plus(app.features()):
        if feature.alerts is None:
            continue
        assert feature.metrics is not None, f"{feature.name} has alert rules and no metrics"
        source = "".join(path.read_text(encoding="utf-8") for path in feature.alerts.parent.glob("*.py"))
        rules_here = re.split(r"\n\s*- alert: ", feature.alerts.read_text(encoding="utf-8"))[1:]
        assert rules_here
        for rule in rules_here:
            asked = {name.removesuffix("_bucket") for name in metrics() if re.search(rf"\b{name}\b", rule)}
            own = any(f'"{name}"' in source for name in asked)
            own = own or re.search(rf'task="{feature.name}\.|schedule=~?"{feature.name}-', rule) is not None
            assert own, f"{feature.name}: no metric of {sorted(asked)} belongs to it: {rule.splitlines()[0]}"


VALUES = {
    "onceward_work_finished_total": frozenset(word for part in get_args(CountedOutcome) for word in get_args(part)),
    "onceward_message_sends_total": frozenset(get_args(AnswerName)),
}
"""The values of the label `outcome` that are a closed set in the code."""


def queries() -> dict[str, str]:
    """Return the query of each alert and of each panel of the dashboard for Grafana."""
    board = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
    panels = {
        f"{panel['title']} {n}": target["expr"]
        for panel in board["panels"]
        for n, target in enumerate(panel.get("targets", []))
    }
    return rules() | panels


def test_alerts_and_panels_ask_for_outcomes_that_are_counted() -> None:
    asked: dict[str, set[str]] = {metric: set() for metric in VALUES}
    for name, query in queries().items():
        for metric, inside in re.findall(r"([a-z_]+)\{(.*?)\}", query):
            for words in re.findall(r"outcome\s*(?:=~|!~|!=|=)\s*\"(.*?)\"", inside):
                if metric in VALUES:
                    asked[metric] |= (values := set(words.split("|")))
                    assert values <= VALUES[metric], f"{name}: {metric} never has {sorted(values - VALUES[metric])}"
    assert all(asked.values()), f"no rule asks for an outcome of {[metric for metric in asked if not asked[metric]]}"


async def test_outcomes_have_the_same_words_in_python_and_in_the_database(db: Database) -> None:
    check = await db.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where contypid = 'onceward.outcome'::regtype"
    )
    assert set(re.findall(r"'(\w+)'", check)) == set(get_args(OutcomeName))
    assert set(get_args(EndOutcome)) < set(get_args(OutcomeName))
    assert VALUES["onceward_work_finished_total"] - set(get_args(OutcomeName)) == {"superseded", "parked"}
