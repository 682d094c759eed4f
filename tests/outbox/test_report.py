"""The report of an attempt: Python writes it, SQL reads it, and both must know the same fields."""

from __future__ import annotations

import re

from onceward.db import Database
from onceward.outbox.deliver import FINISH, DeliveryEnded, DeliveryFailed
from onceward.outbox.report import NAMES, AttemptReport
from onceward.work.settle import describe

KEY = re.compile(r"(?:p_result|p_error|::text)\)? *(?:->>|->|\?) *'(\w+)'")
ADDED_BY_THE_WORKER = {"message"}


async def test_sql_reads_only_fields_that_a_report_has(db: Database) -> None:
    source: str = await db.fetchval("select prosrc from pg_proc where proname = 'settled_delivery'")
    assert set(KEY.findall(source)) - ADDED_BY_THE_WORKER == {
        "status",
        "counted",
        "park_s",
        "trips",
        "disable",
        "reason",
        "skipped",
    }
    assert set(KEY.findall(FINISH)) == {"status", "skipped"}
    assert {"status", "counted", "park_s", "trips", "disable"} < set(NAMES)


def test_a_report_leaves_out_what_does_not_apply() -> None:
    assert AttemptReport().as_json() == {}
    assert AttemptReport(status=200, ms=0, response="").as_json() == {"status": 200, "ms": 0, "response": ""}
    busy = AttemptReport(status=503, trips=True, counted=False, park_s=0.0)
    assert busy.as_json() == {"status": 503, "trips": True, "park_s": 0.0}


def test_the_worker_stores_the_report_with_the_attempt() -> None:
    for error in (
        DeliveryFailed("answered 500", 5.0, AttemptReport(status=500, trips=True)),
        DeliveryEnded("answered 500", AttemptReport(status=500, trips=True)),
    ):
        described = describe(error)
        assert described == {
            "type": type(error).__name__,
            "message": "answered 500",
            "status": 500,
            "trips": True,
        }
