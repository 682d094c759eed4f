"""What commands share that need a loop or the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.db import Database
    from onceward.runtime import Runtime
    from onceward.settings import Settings

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fast loop, where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


@asynccontextmanager
async def opened(app: Onceward, settings: Settings) -> AsyncGenerator[Runtime]:
    """The database of an app, without starting anything else and without touching the schema."""
    from onceward.runtime import Runtime

    runtime = Runtime(app, settings)
    try:
        await runtime.open_database()
        yield runtime
    finally:
        await runtime.stop()


@asynccontextmanager
async def opened_database() -> AsyncGenerator[Database]:
    """The configured database, for commands that need no app. Answers go to stdout, so logs keep to warnings."""
    from onceward.app import Onceward
    from onceward.runtime import configure_process
    from onceward.settings import load_settings

    settings = load_settings(log_level="warning")
    configure_process(settings)
    async with opened(Onceward("onceward"), settings) as runtime:
        yield runtime.database
