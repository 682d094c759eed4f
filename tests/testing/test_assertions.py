"""The assertions of the testing kit pass for what is there, and say what there is instead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.testing import (
    assert_broadcast,
    assert_enqueued,
    assert_not_enqueued,
    assert_published,
    assert_sent,
)
from onceward.testing.assertions import contains

app = Onceward("kit")
app.event_type("order.packed", sample={"order": 1})


@app.job
async def pack(tx: Tx, *, order: int, note: str = "") -> None: ...


@pytest.fixture
async def engine(db: Database, tmp_path: Path) -> AsyncIterator[Engine]:
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "en.txt").write_text("Subject: Hello\n\nHello {{ name }}\n")
    app.registry.template_folders[:] = [tmp_path]
    engine = Engine(db, app.registry, event_types=app.event_types)
    await engine.start()
    yield engine
    await engine.stop()


async def test_a_job_is_found_by_a_part_of_its_arguments(engine: Engine) -> None:
    enqueued = await engine.enqueue(pack, order=1, note="fragile")
    assert await assert_enqueued(engine, pack, order=1) == enqueued.id
    assert await assert_enqueued(engine, "pack") == enqueued.id
    await assert_not_enqueued(engine, pack, order=2)
    with pytest.raises(AssertionError, match=r"no unfinished job pack with \{'order': 2\}; existing:\n  pack"):
        await assert_enqueued(engine, pack, order=2)
    with pytest.raises(AssertionError, match="is enqueued, but should not be"):
        await assert_not_enqueued(engine, pack, order=1)


async def test_the_error_says_none_if_nothing_exists(engine: Engine) -> None:
    with pytest.raises(AssertionError, match="existing:\n  none"):
        await assert_enqueued(engine, pack)


async def test_messages_events_and_broadcasts_are_found(engine: Engine) -> None:
    async with engine.transaction() as tx:
        await tx.send("hello", to="ada@example.com", key="hello:1", data={"name": "Ada"})
        await tx.publish("order.packed", {"order": 7}, key="packed:7")
        await tx.broadcast("orders/7", {"state": "packed", "by": "Bo"})

    [message] = await assert_sent(engine, "hello", to="ada@example.com", data={"name": "Ada"}, count=1)
    assert (message.channel, message.status) == ("email", "pending")
    [event] = await assert_published(engine, "order.packed", data={"order": 7})
    assert event.key == "packed:7"
    [sent] = await assert_broadcast(engine, "orders/7", payload={"state": "packed"})
    assert sent.payload["by"] == "Bo"

    with pytest.raises(AssertionError, match=r"no message hello with to='bo@example.com'; existing:\n  hello to ada"):
        await assert_sent(engine, "hello", to="bo@example.com")
    with pytest.raises(AssertionError, match=r"expected 2 of published event order.packed, found 1"):
        await assert_published(engine, "order.packed", count=2)
    with pytest.raises(AssertionError, match=r"no broadcast to orders/8"):
        await assert_broadcast(engine, "orders/8")


async def test_what_rolled_back_is_not_found(engine: Engine) -> None:
    with pytest.raises(RuntimeError):
        async with engine.transaction() as tx:
            await tx.enqueue(pack, order=1)
            await tx.broadcast("orders/1", {})
            raise RuntimeError
    await assert_not_enqueued(engine, pack)
    await assert_broadcast(engine, "orders/1", count=0)


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ({"a": 1}, {"b": None}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [1], False),
        ("text", {"a": 1}, False),
    ],
)
def test_contains_compares_dictionaries_by_their_keys(whole: Any, part: Any, expected: bool) -> None:
    assert contains(whole, part) is expected
