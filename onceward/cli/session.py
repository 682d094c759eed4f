"""What commands share that need an event loop or the database."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from onceward.cli.app_loader import load_app
from onceward.feature import Feature, Features, Migrations

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.db import Database
    from onceward.db.configured import ConfiguredDatabase
    from onceward.settings import Settings

T = TypeVar("T")


@dataclass(slots=True)
class CommandFeatures:
    """The features of one command line. Those of the app are imported when a command first asks for them."""

    engine: Features
    app_path: str | None = None
    """The app that ONCEWARD_APP names."""
    _app: tuple[Feature, ...] | None = None

    def of_app(self) -> tuple[Feature, ...]:
        """Return the features of the app, which is imported by the first call."""
        if self._app is None:
            self._app = () if self.app_path is None else load_app(self.app_path).features()
        return self._app

    @property
    def loaded(self) -> Features:
        """Return the engine's features, and those of the app if it has been imported."""
        return self.engine.plus(self._app or ())


NO_FEATURES = CommandFeatures(Features())
FEATURES_HERE: ContextVar[CommandFeatures] = ContextVar("features", default=NO_FEATURES)
"""The features of the command that runs. The root of the command line sets them."""


def run(main: Coroutine[Any, Any, T], *, on_exit: Callable[[BaseException], None] | None = None) -> T:
    """Run a coroutine on uvloop if it is installed, otherwise on the loop of asyncio.

    `on_exit` is called if SystemExit or KeyboardInterrupt ends the loop, before the other tasks are cancelled.
    """
    import asyncio

    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            return runner.run(main)
        except (SystemExit, KeyboardInterrupt) as error:
            if on_exit is not None:
                on_exit(error)
            raise


def features_here() -> Features:
    """Return the features of this command line: the engine's, and those of the app that ONCEWARD_APP names."""
    here = FEATURES_HERE.get()
    return here.engine.plus(here.of_app())


def features_with(app: Onceward) -> Features:
    """Return the engine's features and those of this app, whichever app ONCEWARD_APP names."""
    return FEATURES_HERE.get().engine.plus(app.features())


def spare_collector() -> None:
    """Make the garbage collector skip the objects that exist now, and run less often. Call it after the start.

    A worker creates few reference cycles and many objects that live as long as a request. With the default thresholds,
    garbage collection took a tenth of a worker's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def configure_process(settings: Settings) -> None:
    """Configure logging and tracing of the process from its settings."""
    from onceward import __version__
    from onceward.telemetry import configure_logging, configure_tracing

    identity = {"service": settings.service, "environment": settings.environment, "version": __version__}
    configure_logging(level=settings.log_level, format=settings.log_format, **identity)
    if settings.tracing:
        configure_tracing(**identity)


def settings_here(**overrides: Any) -> Settings:
    """Read the settings of the engine and its features. `overrides` (options of the command) win unless they are None.

    Raises `SettingsError` with one line for every invalid value. Those of the app are read when the app runs.
    """
    from onceward.settings import load_settings

    return load_settings(FEATURES_HERE.get().engine.settings, **overrides)


@asynccontextmanager
async def opened(
    settings: Settings, migrations: Sequence[Migrations] = (), *, as_owner: bool = False
) -> AsyncGenerator[ConfiguredDatabase]:
    """Open the database. Starts nothing else and does not change the schema.

    `as_owner`: as the login that owns the tables, for commands that change the schema or need all rights.
    """
    from onceward.db.configured import ConfiguredDatabase

    configured = ConfiguredDatabase(settings, migrations, as_owner=as_owner)
    try:
        await configured.open()
        yield configured
    finally:
        await configured.close()


@asynccontextmanager
async def opened_database(*, as_owner: bool = False) -> AsyncGenerator[Database]:
    """Open the configured database for a command that needs no app. Logs only warnings and errors."""
    from onceward.settings import unknown_names, warn_of_unknown_names

    settings = settings_here(log_level="warning")
    configure_process(settings)
    if unknown_names(
        os.environ, FEATURES_HERE.get().engine.settings
    ):  # perhaps settings of the app, which must be imported to know
        warn_of_unknown_names(features_here().settings)
    async with opened(settings, as_owner=as_owner) as configured:
        yield configured.database
