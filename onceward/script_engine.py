"""The engine of a script: it enqueues work and opens transactions, and runs nothing. `app.engine()` opens it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from onceward.db import MigrationError
from onceward.db.configured import ConfiguredDatabase
from onceward.engine import Engine
from onceward.feature import Features, resolve
from onceward.settings import Settings, load_settings
from onceward.trust.secrets import secret_box

ENGINE_FEATURES = "onceward.runtime:FEATURES"


@asynccontextmanager
async def open_engine(app: Any, settings: Settings | None = None) -> AsyncGenerator[Engine]:
    """Open the database and yield an engine. Raises `Unavailable`, or `MigrationError` if the schema does not fit.

    The end of the block sends the wake-ups that are still due, so that a worker starts the last job at once.
    """
    settings = settings or load_settings()
    features: Features = resolve(ENGINE_FEATURES).plus(app.features())
    opening = ConfiguredDatabase(settings, features.migrations)
    try:
        database = await opening.open()
        await _check_schema(opening)
        await database.act_as_engine()
        # A function: a script that encrypts nothing needs no key and creates none in the data directory.
        engine = Engine(database, app.registry, event_types=app.event_types, box=partial(secret_box, settings))
        engine.wakes_live = bool(app.live)
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop()
    finally:
        await opening.close()


async def _check_schema(opening: ConfiguredDatabase) -> None:
    """Raise `MigrationError` if the schema is older or newer than the code. A script never migrates."""
    pending = await opening.pending_migrations()
    if pending:
        raise MigrationError(
            f"the database lacks {len(pending)} migrations or function files of this code, the first is {pending[0]}: "
            "run `onceward migrate pkg.module:app`, or start a process of the app, before the script"
        )
