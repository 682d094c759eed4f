"""`onceward.testing.rehearse` returns effects as values, and `assert_effects` compares them with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.db import Database
from onceward.rehearsal.effects import JobEffect
from onceward.testing import assert_effects, rehearse
from tests.dumps import dump
from tests.rehearsal import kiosk


async def test_a_snapshot_has_no_ids_and_times_and_a_difference_is_shown_as_a_patch(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = kiosk.make_app()
    engine, organization = await kiosk.prepare(db, app)
    before = await dump(db)
    snapshot = tmp_path / "snapshots" / "paid.txt"
    shown = await rehearse(engine, "sql/order.paid", kiosk.ORDER, organization=organization)
    assert shown.effects.jobs == (JobEffect("pack", {"number": "K-7"}, "default", "pack:K-7", 7200),)
    with pytest.raises(AssertionError, match="ONCEWARD_WRITE_SNAPSHOTS=1"):
        assert_effects(shown, snapshot)
    monkeypatch.setenv("ONCEWARD_WRITE_SNAPSHOTS", "1")
    assert_effects(shown, snapshot)
    monkeypatch.delenv("ONCEWARD_WRITE_SNAPSHOTS")
    text = snapshot.read_text()
    assert "- update kiosk.seats seat A1\n    taken_by: null -> K-7\n" in text
    assert "at=<now>" in text

    again = await rehearse(engine, "sql/order.paid", kiosk.ORDER, organization=organization)
    assert_effects(again, snapshot)
    other = await rehearse(engine, "sql/order.paid", {**kiosk.ORDER, "amount": 1300}, organization=organization)
    with pytest.raises(AssertionError, match=r"-    cash -> sales 1200 EUR\n\+    cash -> sales 1300 EUR"):
        assert_effects(other, snapshot)
    assert await dump(db) == before
    with pytest.raises(AssertionError, match="its event handlers are"):
        await rehearse(engine, "sql/unknown", {})


async def test_a_job_is_rehearsed_with_arguments_that_nobody_has_enqueued(db: Database) -> None:
    app = kiosk.make_app()
    engine, _ = await kiosk.prepare(db, app)
    [pack] = [task for name, task in app.registry.tasks.items() if name == "pack"]
    shown = await rehearse(engine, kiosk.job_of(app, "pack"), number="K-1")
    assert (shown.task, shown.state, shown.result) == (pack.name, "nothing", "packed")
