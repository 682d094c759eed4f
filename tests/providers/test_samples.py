"""Payloads that are made of a sample have new ids and current times, and are otherwise the sample."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from onceward.webhooks.samples import REFERENCE_TIME, Sample, Samples

NOW = int(REFERENCE_TIME.timestamp())


def made(payload: Any, id_path: str | None = None) -> Any:
    return Sample(orjson.dumps(payload), id_path=id_path).make()


def test_ids_are_new_each_time_and_equal_where_they_were_equal() -> None:
    sid = "SM4e1d7b90c2f8463aa5b06d9f3e8c1720"
    payload = {
        "id": "evt_1Q8kd02nWq7ZtY5m",
        "a": sid,
        "b": [f"https://x.example/{sid}/edit"],
        "order": "5O190127TN364715T",
    }
    one, other = made(payload), made(payload)
    for name in ("id", "a", "order"):
        assert len({payload[name], one[name], other[name]}) == 3
        assert len(one[name]) == len(payload[name])
    assert one["b"] == [f"https://x.example/{one['a']}/edit"]
    assert one["id"].startswith("evt_1Q")
    assert one["a"].startswith("SM")
    assert set(one["a"][2:]) <= set("0123456789abcdef")
    assert one["order"].upper() == one["order"]


def test_other_values_stay() -> None:
    payload = {"name": "consultation-room", "phone": "+15005550006", "text": "<@U0BOT> how many?", "n": 200000000000002}
    assert made(payload) == payload


@pytest.mark.parametrize("id", ["1", "Ev0PV52K21", "ptcpt-left-3f0c2a51-8d4e-4b7a-9c16-2e5d8f704b91-1767268800"])
def test_the_event_id_is_always_new(id: str) -> None:
    assert len({id, made({"event": {"id": id}}, "event.id")["event"]["id"], made({"id": id}, "id")["id"]}) == 3


def test_times_near_the_reference_keep_their_distance_to_now() -> None:
    payload = {
        "created": NOW - 60,
        "ms": (NOW + 60) * 1000,
        "text": str(NOW),
        "ts": f"{NOW}.000200",
        "iso": "2026-01-02T12:00:00.000Z",
        "offset": "2026-01-01T14:00:00+02:00",
        "old": 1_500_000_000,
        "past": "2020-01-01T00:00:00Z",
    }
    before, one = int(time.time()), made(payload)
    passed = int(time.time()) - before + 1
    assert 0 <= one["created"] + 60 - before <= passed
    assert 0 <= one["ms"] // 1000 - 60 - before <= passed
    assert 0 <= int(one["text"]) - before <= passed
    assert one["ts"] == f"{one['text']}.000200"
    assert 0 <= datetime.fromisoformat(one["iso"]).timestamp() - 86_400 - before <= passed
    assert one["iso"].endswith("Z")
    assert datetime.fromisoformat(one["offset"]).astimezone(UTC).timestamp() - before <= passed
    assert one["offset"].endswith("+02:00")
    assert (one["old"], one["past"]) == (payload["old"], payload["past"])


def test_a_type_without_a_sample_gets_the_one_with_the_most_similar_name() -> None:
    samples = Samples(dict.fromkeys(("charge.failed", "charge.refunded", "payment_intent.failed"), b"{}"))
    assert samples.nearest("charge.updated") == "charge.failed"
    assert samples.nearest("payment_intent.created") == "payment_intent.failed"
    assert Samples().nearest("charge.updated") is None


def test_a_sample_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "parcel.sent.json").write_text("{")
    with pytest.raises(ValueError, match=r"parcel\.sent\.json is not JSON"):
        Samples.of_folder(tmp_path)["parcel.sent"]
