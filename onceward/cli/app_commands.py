"""What the commands of apps share: the engine of the app, and a transaction for one organization."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.session import configure_process, features_with, settings_here
from onceward.feature import Reference, resolve

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.app import Onceward
    from onceward.engine import Engine
    from onceward.tx import Tx

ACTOR = "operator:cli"
"""The name of a user of the command line in the audit log."""

OrganizationOption = Annotated[str, typer.Option("--organization", "-o", help="Slug or id of the organization.")]
"""The option `--organization` of a command that needs one."""


@asynccontextmanager
async def engine_for(
    app: Onceward | Reference, organization: str, *, refusals: type[Exception] | Reference
) -> AsyncGenerator[tuple[Engine, UUID]]:
    """Open the engine of an app, and look up an organization by slug or id. Logs only warnings and errors.

    `refusals` are the app's own errors: their text becomes the message of the command, without a stack. References are
    imported here, so that `--help` loads no app.
    """
    from onceward.settings import warn_of_unknown_names
    from onceward.trust import find_organization

    loaded: Onceward = resolve(app) if isinstance(app, str) else app
    refused: type[Exception] = resolve(refusals)
    settings = settings_here(log_level="warning")
    configure_process(settings)
    warn_of_unknown_names(features_with(loaded).settings)
    try:
        async with loaded.engine(settings=settings) as engine:
            async with engine.db.acquire() as conn:
                row = await find_organization(conn, organization)
            yield engine, row.organization_id
    except refused as error:
        raise CommandFailed(str(error)) from error


@asynccontextmanager
async def transaction_for(
    app: Onceward | Reference, organization: str, *, refusals: type[Exception] | Reference
) -> AsyncGenerator[Tx]:
    """Open a transaction for an organization, given by slug or id."""
    async with (
        engine_for(app, organization, refusals=refusals) as (engine, organization_id),
        engine.transaction(organization=organization_id) as tx,
    ):
        yield tx
