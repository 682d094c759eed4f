"""What needs no database: the verdict, the picture of a tree, and how values are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward.web.dashboard import formats
from onceward.web.dashboard.contribution import Reason
from onceward.web.dashboard.site import url
from onceward.work.consequences import Node, Trace
from onceward.work.pages.charts import chart
from onceward.work.pages.figures import Series
from onceward.work.pages.picture import draw
from onceward.work.pages.tracing import as_text, branches
from onceward.work.pages.verdict import judge

QUIET = Series(0, [0] * 60, [5] * 60, [0] * 60)
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def found(**changed: Any) -> dict[str, Any]:
    standing: dict[str, Any] = {
        "depth": {"due": 0, "dead": 0, "oldest_s": None, "more": False},
        "dead_lately": 0,
        "workers": {"all": 2, "silent": 0},
        "database": {"connections": 5, "most_connections": 100, "longest_s": 0.1},
        "paused": [],
        "parked": [],
        "unserved": [],
    }
    return {**standing, **changed}


def path_of(kind: str, id: int) -> str:
    return f"/dashboard/{kind}s/{id}"


def test_what_a_feature_contributes_counts_like_the_rest() -> None:
    contributed = [Reason("attention", "2 endpoints disabled after failures", "/dashboard/endpoints")]
    verdict = judge(found(), QUIET, contributed)
    assert (verdict.level, verdict.reasons) == ("attention", tuple(contributed))


def test_nothing_wrong_is_healthy() -> None:
    assert judge(found(), QUIET).level == "healthy"


@pytest.mark.parametrize(
    ("changed", "level", "word"),
    [
        ({"depth": {"due": 9, "dead": 0, "oldest_s": 45.0}}, "attention", "45 s"),
        ({"depth": {"due": 9, "dead": 0, "oldest_s": 900.0}}, "trouble", "15 min"),
        ({"depth": {"due": 0, "dead": 3, "oldest_s": None}}, "attention", "3 dead letters"),
        ({"depth": {"due": 0, "dead": 80, "oldest_s": None}, "dead_lately": 80}, "trouble", "80 dead letters"),
        ({"workers": {"all": 0, "silent": 0}}, "trouble", "No worker"),
        ({"paused": ["mail"]}, "attention", "mail is paused"),
        ({"unserved": [{"task": "old", "queue": "q", "reason": "no_handler", "waiting": 4}]}, "attention", "task old"),
        ({"database": {"connections": 96, "most_connections": 100, "longest_s": 0}}, "trouble", "96 of 100"),
    ],
)
def test_each_problem_is_shown_with_its_reason(changed: dict[str, Any], level: str, word: str) -> None:
    verdict = judge(found(**changed), QUIET)
    assert verdict.level == level
    assert any(word in reason.text for reason in verdict.reasons)


def test_a_quarter_of_attempts_failing_is_trouble_and_comes_first() -> None:
    verdict = judge(found(paused=["mail"]), Series(0, [0] * 60, [3] * 60, [1] * 60))
    assert verdict.level == "trouble"
    assert "25 %" in verdict.reasons[0].text


def node(
    id: int, kind: str = "job", label: str = "work", state: str = "success", children: tuple[Node, ...] = ()
) -> Node:
    at = START + timedelta(milliseconds=id)
    return Node(id, kind, label, state, at, at + timedelta(milliseconds=5), 1, None, None, children)


def test_those_alike_are_folded_and_the_one_that_differs_is_not() -> None:
    alike = tuple(node(n, children=(node(n + 100, "audit", "done", "recorded"),)) for n in range(10, 16))
    root = node(1, "event", "order", children=(*alike, node(20, state="dead_letter")))
    drawn = branches(Trace((), root))
    assert [(each.times, each.node.state) for each in drawn.children] == [(6, "success"), (1, "dead_letter")]
    assert drawn.children[0].children[0].times == 6
    assert len(branches(Trace((), root), fold=False).children) == 7


def test_no_two_cards_overlap_and_every_consequence_is_linked_to_its_cause() -> None:
    root = node(
        1,
        children=tuple(
            node(n, label=f"t{n}", children=tuple(node(n * 10 + m, label=f"u{m}") for m in range(3)))
            for n in range(2, 6)
        ),
    )
    picture = draw(branches(Trace((node(0, "event"),), root), fold=False), path_of)
    assert len({(card.x, card.y) for card in picture.cards}) == len(picture.cards) == 18
    assert len(picture.links) == 17
    assert all(card.x < picture.width and card.y < picture.height for card in picture.cards)
    assert [card.id for card in picture.cards if card.focus] == [1]


def test_a_very_deep_chain_is_drawn_as_far_as_it_helps() -> None:
    chain = node(500)
    for id in range(499, 0, -1):
        chain = node(id, children=(chain,))
    assert len(draw(branches(Trace((), chain)), path_of).cards) == 61


def test_the_text_of_a_tree_names_kind_id_and_state() -> None:
    root = node(1, "event", "order", children=(node(2, label="a"), node(3, label="b", state="dead_letter")))
    lines = as_text(branches(Trace((), root))).splitlines()
    assert lines[0].startswith("event order  #1  [success]")
    assert lines[1].startswith("├─ job a  #2")
    assert lines[2].startswith("└─ job b  #3  [dead letter]")


def test_credentials_are_covered_however_deep_and_nothing_else_is() -> None:
    shown = formats.covered(
        {
            "a": [{"client_secret": "x", "Authorization": "y"}],
            "token": "",
            "tokens": ["t"],
            "secretary": "Ann",
            "key": "k",
        }
    )
    assert shown == {
        "a": [{"client_secret": formats.COVER, "Authorization": formats.COVER}],
        "token": "",
        "tokens": formats.COVER,
        "secretary": "Ann",
        "key": "k",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.00042, "420 µs"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (4.2, "4.2 s"),
        (300, "5 min"),
        (3725, "1 h 2 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_written_in_the_unit_that_suits_them(value: float | None, shown: str) -> None:
    assert formats.seconds(value) == shown


def test_addresses_are_recognisable_and_not_readable() -> None:
    assert formats.address("jane.doe@example.org") == "j•••@example.org"
    assert formats.address("+49 170 1234567") == "+49•••67"
    assert formats.address("user-17") == "user-17"


def test_a_chart_of_nothing_is_flat_and_one_of_something_stays_in_its_box() -> None:
    assert chart([]).line == ""
    drawn = chart([0, 10, 500, 3])
    heights = [float(point.split(",")[1]) for point in drawn.line[1:].split(" L")]
    assert all(0 <= height <= 64 for height in heights)


def test_addresses_of_pages_leave_out_what_is_empty() -> None:
    assert url("/x", {"a": "1", "b": "2"}, a="", c="ä&") == "/x?b=2&c=%C3%A4%26"
