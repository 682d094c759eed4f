"""The log line of a start says how long the start took, and where the time went."""

from __future__ import annotations

import pytest
import structlog
from pydantic import SecretStr

from onceward import Onceward
from onceward.cli.lean import process_age_s
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings


async def test_the_line_of_a_start_has_its_duration_by_stage(database_url: str) -> None:
    process = Process(Onceward("shop"), Settings(database_url=SecretStr(database_url)), FEATURES, age_s=1.5)
    with structlog.testing.capture_logs() as lines:
        await process.start({"scheduler"})
    await process.stop()
    [line] = [line for line in lines if line["event"] == "process.started"]
    assert list(line["stages_ms"]) == ["imports", "database", "schema", "parts_made", "parts_started"]
    assert line["stages_ms"]["imports"] == 1500
    assert line["duration_ms"] == sum(line["stages_ms"].values())


async def test_a_part_that_cannot_be_imported_ends_the_start(database_url: str) -> None:
    app = Onceward("shop")
    app.part("broken", "no_such_package.parts:make")
    process = Process(app, Settings(database_url=SecretStr(database_url)), FEATURES)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        await process.start({"scheduler"})
    assert process.context is None


@pytest.mark.skipif(process_age_s() is None, reason="only Linux tells the age of a process")
def test_the_age_of_a_process_grows() -> None:
    first, second = process_age_s(), process_age_s()
    assert first is not None
    assert second is not None
    assert 0 < first <= second
