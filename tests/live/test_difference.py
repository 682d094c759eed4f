"""Differences between results: applying one gives the new result, in Python and in the JavaScript client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onceward.live import difference as module
from onceward.live.difference import apply, difference

CLIENT = Path(__file__).parents[2] / "clients/js/client.js"

ROW = st.text("fhsx", min_size=100, max_size=100) | st.text(max_size=80)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | ROW,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=2), inner, max_size=4),
    max_leaves=12,
)


def text(value: Any) -> str:
    return orjson.dumps(value).decode()


def canonical(value: Any) -> bytes:
    """The value as JSON with sorted keys. Unlike in Python, false and 0 differ."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def seats(*sold: int) -> dict[str, Any]:
    letters = ["f"] * 20_000
    for seat in sold:
        letters[seat] = "s"
    return {"on_sale": True, "seats": {"hall": "".join(letters)}, "places": {"lawn": 3}}


@given(VALUES, VALUES)
@example(False, 0)
@example([True], [1])
@settings(max_examples=150, deadline=None)
def test_a_difference_turns_the_old_result_into_the_new_one(before: Any, after: Any) -> None:
    changes: list[list[Any]] = []
    module._compare([], before, after, changes)  # pyright: ignore[reportPrivateUsage]
    assert canonical(apply(before, orjson.loads(text(changes)))) == canonical(after)
    assert (changes == []) == (canonical(before) == canonical(after))


def test_four_seats_of_twenty_thousand_are_a_short_difference() -> None:
    before, after = seats(1), seats(1, 700, 701, 702, 19_999)
    changes = difference(text(before), text(after))
    assert changes is not None
    assert len(changes) < 200
    assert apply(before, orjson.loads(changes)) == after


def test_small_results_and_large_differences_are_sent_whole() -> None:
    assert difference(text({"n": 1}), text({"n": 2})) is None
    assert difference(text(seats()), text(seats(*range(20_000)))) is None


@pytest.mark.peer
def test_the_javascript_client_applies_the_same_changes() -> None:
    cases = [
        (seats(1), seats(1, 700, 19_999)),
        ({"a": [1, {"b": "x" * 99}], "c": 1}, {"a": [1, {"b": "x" * 50 + "y" + "x" * 48}], "d": None}),
        ({"é": "é" * 99}, {"é": "è" * 99}),
        ([1, 2, 3], [1, 2]),
    ]
    given_cases = []
    for before, after in cases:
        changes: list[list[Any]] = []
        module._compare([], before, after, changes)  # pyright: ignore[reportPrivateUsage]
        given_cases.append([before, changes])
    script = f"""
        import {{ applyChanges }} from {json.dumps(CLIENT.as_uri())};
        const cases = {json.dumps(given_cases)};
        console.log(JSON.stringify(cases.map(([before, changes]) => applyChanges(before, changes))));
    """
    try:
        answer = subprocess.run(
            ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("node is not installed: apt install nodejs")
    assert json.loads(answer.stdout) == [after for _, after in cases]
