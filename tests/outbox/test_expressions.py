"""Filters and transformations: what they can do, and that no text makes them expensive."""

from __future__ import annotations

import time
from typing import Any

import pytest

from onceward import exact_json
from onceward.outbox.errors import ExpressionFailed, Invalid
from onceward.outbox.expressions import check_expression, is_wanted, transformed

EVENT: dict[str, Any] = {
    "type": "order.paid",
    "data": {"amount": 4200, "big": 2**70, "lines": [{"id": n} for n in range(200)]},
}
BODY = exact_json.dumps(EVENT).encode()
ATTACKS = (
    "[@,@]" + "|[@,@]" * 300,
    "to_string(@)" + "|to_string([@,@])" * 100,
    "data.lines[].[" + ",".join(["@"] * 500) + "]|[].[" + ",".join(["@"] * 400) + "]",
    "[@,@]" + "|[@,@]" * 60 + "|[0]==[1]",
    "{a:@,b:@}" + "|{a:@,b:@}" * 100,
    "map(&[@,@,@,@]," * 50 + "data.lines" + ")" * 50,
)


@pytest.mark.parametrize("text", ATTACKS)
def test_an_expression_that_grows_is_cut_within_a_moment(text: str) -> None:
    check_expression("filter", text)
    started = time.process_time()
    with pytest.raises(ExpressionFailed):
        transformed(text, BODY, most_bytes=1 << 20)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("data.amount > `1000`", True),
        ("data.amount > `9000`", False),
        ("data.missing", False),
        ("data.lines[?id == `7`]", True),
        ("data.lines[?id == `777`]", False),
        ("starts_with(type, 'order.')", True),
        ("`0`", True),
    ],
)
def test_a_filter_is_true_for_anything_but_false_null_and_empty(text: str, wanted: bool) -> None:
    assert is_wanted(text, BODY) is wanted


def test_a_transformation_keeps_exact_numbers() -> None:
    assert exact_json.loads(transformed("{text: join(' ', [type, 'x']), n: data.big}", BODY, most_bytes=1000)) == {
        "text": "order.paid x",
        "n": 2**70,
    }


@pytest.mark.parametrize("text", ["", "x" * 2001, "a[", "nope(@)|", "(" * 1500])
def test_a_text_that_is_not_an_expression_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_expression("transform", text)
    assert refused.value.field == "transform"


@pytest.mark.parametrize(
    ("text", "body"),
    [("data.nothing", BODY), ("@", b"a=1"), ("unknown(@)", BODY), ("sum(type)", BODY), ("data.lines", b"[" * 100_000)],
)
def test_an_expression_that_does_not_fit_says_so_without_the_data(text: str, body: bytes) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        transformed(text, body, most_bytes=1000)
    assert "4200" not in str(failed.value)
