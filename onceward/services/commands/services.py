"""`services`: check an account at a service."""

from __future__ import annotations

from typing import Annotated

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import say
from onceward.cli.session import opened_database, run, settings_here

group = typer.Typer(no_args_is_help=True, help="Accounts at the services that the app calls: `check`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="services")


@group.command("check")
def check(
    name: Annotated[str, typer.Argument(help="Name of the service, as `onceward integrations ls` lists it.")],
    organization: Annotated[
        str | None,
        typer.Option(
            "--organization", help="Slug or id of the organization. Default: the account of the installation."
        ),
    ] = None,
) -> None:
    """Make one harmless call to a service, to find out if it accepts the credentials. Exits with 1 if it does not."""
    from onceward.integration import integrations
    from onceward.services.accounts import callable_services

    known, checkable = integrations(), _checkable()
    if name not in checkable:
        usable = f"use one of {', '.join(checkable)}"
        if name not in known:
            raise CommandFailed(f"there is no integration {name!r}: {usable}", Exit.USAGE)
        if name not in callable_services():
            raise CommandFailed(
                f"{known[name].title} has no client, so there is no account to check: {usable}", Exit.USAGE
            )
        raise CommandFailed(
            f"{known[name].title} has a client without `check()`, so its account cannot be checked: {usable}",
            Exit.USAGE,
        )
    whose = "the installation" if organization is None else organization
    doubt = run(_check(name, organization, whose))
    title = known[name].title
    say(f"{title} accepts the credentials of {whose}" if doubt is None else f"{title} answers: {doubt}")


def _checkable() -> list[str]:
    from onceward.integration import integrations
    from onceward.services.accounts import callable_services

    return [each for each in callable_services() if hasattr(integrations().load(each, "client"), "check")]


async def _check(name: str, organization: str | None, whose: str) -> str | None:
    """Check an account. Return why the credentials may still be wrong, if the service does not say it."""
    from onceward.integration import integrations
    from onceward.services.outcome import Accepted
    from onceward.services.services import Services

    services = Services()
    services.configure(settings_here(log_level="warning"))
    try:
        if organization is None:
            answer = await (await services.get(name, None)).check()
        else:
            from onceward.trust import find_organization
            from onceward.trust.secrets import OrganizationSecrets, secret_box

            async with opened_database() as db:
                async with db.acquire() as conn:
                    row = await find_organization(conn, organization)
                services.use_secrets(OrganizationSecrets(db, secret_box(settings_here())))
                answer = await (await services.get(name, row.organization_id)).check()
    finally:
        await services.aclose()
    if not isinstance(answer, Accepted):
        reason = getattr(answer, "reason", "too many requests")
        raise CommandFailed(f"{integrations()[name].title} with the account of {whose}: {answer.label}: {reason}")
    return answer.detail.get("unverified")
