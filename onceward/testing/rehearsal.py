"""Rehearse a handler in a test, and assert the complete set of its effects.

    shown = await rehearse(engine, pay, order=7)
    assert_effects(shown, "snapshots/pay.txt")

The effects are values: `assert shown.effects.jobs == (JobEffect("pack", {"order": 7}, "default"),)`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from onceward import exact_json
from onceward.engine import Engine
from onceward.inbox.event import StoredEvent
from onceward.rehearsal import recorded_work
from onceward.rehearsal.comparison import SAME_TIME_S, TIME_TEXT, UUID_TEXT
from onceward.rehearsal.effects import Rehearsal, RowChange
from onceward.rehearsal.lines import headline, lines
from onceward.rehearsal.recorded_work import RecordedWork
from onceward.rehearsal.rehearser import Rehearser
from onceward.work import Claimed, JobTask

WRITE = "ONCEWARD_WRITE_SNAPSHOTS"
NEXT_ID = "select nextval('onceward.ids'), onceward.now()"
NOBODY = UUID(int=0)


async def rehearse(
    engine: Engine,
    handler: JobTask[..., Any] | str | int,
    payload: Any = None,
    /,
    *,
    organization: UUID | None = None,
    **arguments: Any,
) -> Rehearsal:
    """Run a handler in a transaction that is rolled back, and return everything it would cause.

    `handler` is a job with its arguments, the name of an event handler (`"shop/order.paid"`) with a payload, or the id
    of a stored event or job.
    """
    async with Rehearser(engine) as rehearser:
        if isinstance(handler, int):
            async with engine.db.acquire() as conn:
                [recorded] = await recorded_work.load(conn, engine.registry, [handler])
        else:
            row = await engine.db.fetchrow(NEXT_ID)
            assert row is not None
            if isinstance(handler, JobTask):
                recorded = _of_job(handler, row[0], organization, arguments)
            else:
                recorded = _of_event(engine, handler, row[0], row[1], organization, payload)
        return await rehearser.rehearse(recorded)


def assert_effects(shown: Rehearsal, snapshot: str | Path) -> None:
    """Assert that the effects are those in the file, a text that a reviewer can read. Ids and times have names in it.

    Set ONCEWARD_WRITE_SNAPSHOTS=1 to write the file.
    """
    path = Path(snapshot)
    text = as_snapshot(shown)
    if os.environ.get(WRITE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        raise AssertionError(
            f"there is no snapshot {path}: run the test once with {WRITE}=1, and read the file\n{text}"
        )
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        import difflib

        changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", lineterm="")
        raise AssertionError("the effects have changed:\n" + "\n".join(changes))


def as_snapshot(shown: Rehearsal) -> str:
    """Return the effects as text, without anything that differs between runs."""
    written = [f"{shown.task}: {headline(shown)}"]
    rows = tuple(_unnumbered(row, shown.generated) for row in shown.effects.rows)
    for line in lines(replace(shown.effects, rows=rows)):
        written.append(f"- {line.kind} {line.text}" + (f" [{line.note}]" if line.note else ""))
        written += [f"    {detail}" for detail in line.details]
    if shown.result is not None:
        written.append(f"returns {exact_json.dumps(shown.result, default=str)}")
    text = re.sub(rf"\b{shown.kind}:{shown.id}\b", f"{shown.kind}:<work>", "\n".join(written))
    return _named(text + "\n", shown)


def _unnumbered(row: RowChange, generated: frozenset[str]) -> RowChange:
    """Return a row without numbers that a sequence gave: its own key, and references to other new rows."""

    def named(name: str, value: Any) -> Any:
        is_new = isinstance(value, int) and not isinstance(value, bool) and str(value) in generated
        return "<new>" if is_new and (name.endswith("id") or (name in row.key and len(row.key) == 1)) else value

    key = {name: named(name, value) for name, value in row.key.items()}
    return replace(row, key=key, after={name: named(name, value) for name, value in row.after.items()})


def _named(text: str, shown: Rehearsal) -> str:
    """Replace generated ids by names in the order of their appearance, and times by their distance from the start."""

    names: dict[str, str] = {}

    def time(match: re.Match[str]) -> str:
        try:
            moment = datetime.fromisoformat(match[0])
        except ValueError:
            return match[0]
        if moment.tzinfo is None:
            return match[0]
        away_s = (moment - shown.at).total_seconds()
        return "<now>" if abs(away_s) < SAME_TIME_S else match[0]

    def id(match: re.Match[str]) -> str:
        value = match[0].lower()
        if value not in names and (value not in shown.generated or (value.isdigit() and int(value) < 1000)):
            return match[0]
        return names.setdefault(value, f"<id {len(names) + 1}>")

    text = TIME_TEXT.sub(time, text)
    return re.sub(r"(?<![\w.])\d+(?![\w.])", id, UUID_TEXT.sub(id, text))


def _of_job(job: JobTask[..., Any], number: int, organization: UUID | None, arguments: dict[str, Any]) -> RecordedWork:
    stored = exact_json.loads(job.dump(arguments))
    claimed = Claimed(0, number, "job", job.name, organization, args=stored)
    return RecordedWork(number, "job", job.name, job.name, claimed, None, False, None)


def _of_event(
    engine: Engine, name: str, number: int, now: datetime, organization: UUID | None, payload: Any
) -> RecordedWork:
    if name not in engine.registry.tasks:
        known = ", ".join(sorted(task.name for task in engine.registry if task.kind == "event")) or "none"
        raise AssertionError(f"the app has no handler {name!r}; its event handlers are {known}")
    provider, _, type = name.partition(":")[2].partition("/") if ":" in name else name.partition("/")
    claimed = Claimed(0, number, "event", name, organization)
    claimed.body = StoredEvent(
        number, uuid4(), NOBODY, f"test_{number}", provider, type, payload, {}, organization, now, provider
    )
    return RecordedWork(number, "event", name, claimed.body.event_id, claimed, None, False, None)
