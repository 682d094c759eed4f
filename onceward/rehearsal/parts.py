"""The parts of rehearsals in a running process."""

from __future__ import annotations

from onceward.context import Context
from onceward.rehearsal.preview import Previews
from onceward.rehearsal.settings import RehearsalSettings


def previews(context: Context) -> Previews:
    """Return what rehearses for the dashboard and the API. Its process uses the database of this one."""
    environment = {"ONCEWARD_DATA_DIR": str(context.settings.data_dir)}
    if context.settings.database_url is not None:
        environment["ONCEWARD_DATABASE_URL"] = context.settings.database_url.get_secret_value()
    return Previews(context.app, context.engine, environment, context.settings.of(RehearsalSettings))
