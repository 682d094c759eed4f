"""The Grafana dashboard asks about metrics and labels that exist, and its panels do not overlap."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_alerts import WORDS, metrics

DASHBOARD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "deploy" / "grafana.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"]) for panel in PANELS for target in panel.get("targets", ())
]


@pytest.mark.parametrize(("title", "expression", "legend"), QUERIES)
def test_a_panel_asks_about_what_is_counted(title: str, expression: str, legend: str) -> None:
    known = metrics()
    bare = re.sub(r"\{.*?\}|\[.*?\]|\bby \(.*?\)", "", expression)
    used = set(re.findall(r"\b[a-z][a-z_]+\b", bare)) - WORDS - {"topk"}
    assert len(used) == 1, f"{title} asks about {sorted(used)}"
    [metric] = used
    assert metric in known, f"{title} asks about {metric}, which nobody counts"
    grouped = {label for group in re.findall(r"\bby \((.*?)\)", expression) for label in group.split(", ")}
    matched = set(re.findall(r"([a-z_]+)=", expression))
    assert grouped | matched <= known[metric], f"{title}: {metric} has no such label"
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= grouped, (
        f"the legend of {title} shows a label that is summed up"
    )


def test_every_panel_has_its_own_id_and_place() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids) >= 20
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or below, (one, other)


def test_every_query_uses_the_chosen_data_source() -> None:
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    sources = {target["datasource"]["uid"] for panel in PANELS for target in panel.get("targets", ())}
    assert sources == {"${datasource}"}
    assert names == {"datasource"}
    assert DASHBOARD["uid"] == "onceward"


def test_panels_of_durations_lead_to_traces() -> None:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            assert target.get("exemplar", False) == ("_bucket" in target["expr"]), panel["title"]
