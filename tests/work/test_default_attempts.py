"""Tasks without a retry policy of their own follow the settings; the others keep what they declared."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from onceward import Onceward, Tx
from onceward.inbox.handlers import task_name
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.work.settings import WorkSettings


async def test_the_settings_decide_for_tasks_that_declare_nothing(database_url: str, tmp_path: Path) -> None:
    app = Onceward("t")

    @app.job
    async def plain(tx: Tx) -> None: ...

    @app.job(max_attempts=2)
    async def careful(tx: Tx) -> None: ...

    @app.on("stripe", "charge.succeeded")
    async def paid(tx: Tx) -> None: ...

    for events, jobs in ((7, 3), (5, 12)):
        settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, pool_max=4).using(
            WorkSettings(max_attempts=events, job_max_attempts=jobs)
        )
        process = Process(app, settings, FEATURES)
        await process.start({"scheduler"})
        await process.stop()
        attempts = {name: task.retry.max_attempts for name, task in app.registry.tasks.items()}
        assert (attempts["plain"], attempts["careful"]) == (jobs, 2)
        assert attempts[task_name("stripe", "charge.succeeded")] == events
