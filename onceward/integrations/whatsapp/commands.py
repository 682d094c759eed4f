"""The commands `whatsapp templates|check|status`: the approved templates of an app, and what the account says about
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.app_loader import AppOption, load_app
from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run, settings_here

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.integrations.whatsapp.client import WhatsApp
    from onceward.integrations.whatsapp.kit import Comparison, NeededTemplate

OrganizationOption = Annotated[
    str | None,
    typer.Option("--organization", "-o", help="Slug or id of the organization. Default: the installation's account."),
]

group = typer.Typer(no_args_is_help=True, help="Approved templates of WhatsApp: print, compare, submit, show states.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="whatsapp")


def _needed(app: str | None) -> list[NeededTemplate]:
    from onceward.integrations.whatsapp.kit import needed_templates
    from onceward.messages import BadTemplate, Templates
    from onceward.work import PayloadInvalid

    try:
        return needed_templates(Templates(load_app(app).registry.template_folders))
    except (BadTemplate, PayloadInvalid) as error:
        raise CommandFailed(str(error)) from None


@group.command("templates")
def templates(app: AppOption = None) -> None:
    """Print the templates that the app needs at Meta as JSON, each as `message_templates` takes it."""
    document([dict(each.submission) for each in _needed(app)])


@group.command("check")
def check(
    create: Annotated[bool, typer.Option("--create", help="Submit the missing templates for approval.")] = False,
    organization: OrganizationOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the templates of the app with the account at Meta.

    Exits with 1 if one is not approved as the app needs it.
    """
    needed = _needed(app)
    if not needed:
        say("no template of the app needs approval")
        return
    compared, submitted = run(_check(needed, organization, create=create))
    rows = [
        {
            "name": each.needed.submission["name"],
            "language": each.needed.submission["language"],
            "verdict": each.verdict,
            "status": each.status,
            "detail": submitted.get(each.needed.key) or each.detail,
        }
        for each in compared
    ]
    listing(rows, columns=("name", "language", "verdict", "status", "detail"), as_json=as_json)
    open_ones = [row for row in rows if row["verdict"] != "ok"]
    if open_ones:
        hint = "" if create else "; `--create` submits those that are missing"
        raise CommandFailed(f"{len(open_ones)} of {len(rows)} templates cannot be sent as the app needs them{hint}")


async def _check(
    needed: list[NeededTemplate], organization: str | None, *, create: bool
) -> tuple[list[Comparison], dict[tuple[str, str], str]]:
    from onceward.integrations.whatsapp.kit import compare
    from onceward.integrations.whatsapp.management import AccountUnreadable, WhatsAppAccount
    from onceward.messages.service_states import remember_account
    from onceward.services.outcome import Accepted
    from onceward.services.services import Services

    services = Services()
    services.configure(settings_here())
    submitted: dict[tuple[str, str], str] = {}
    try:
        async with opened_database() as db:
            whose, whatsapp = await _client(services, db, organization)
            if whatsapp.business_account_id is None:
                raise CommandFailed(
                    "the id of the WhatsApp Business Account is not set: set ONCEWARD_WHATSAPP_BUSINESS_ACCOUNT_ID, or"
                    " the organization's secret whatsapp.business_account_id"
                )
            account = WhatsAppAccount(whatsapp, whatsapp.business_account_id)
            try:
                compared = compare(needed, await account.list_templates())
            except AccountUnreadable as error:
                raise CommandFailed(f"Meta did not return the templates of the account: {error}") from None
            async with db.transaction(role="engine") as tx:
                await remember_account(tx, "whatsapp", account.business_account_id, whose)
            for each in compared if create else ():
                if each.verdict == "missing":
                    answer = await account.create_template(each.needed.submission)
                    submitted[each.needed.key] = (
                        f"submitted, {answer.detail.get('status', 'PENDING')}"
                        if isinstance(answer, Accepted)
                        else f"not submitted: {getattr(answer, 'reason', answer.label)}"
                    )
    finally:
        await services.aclose()
    return compared, submitted


async def _client(services: Any, db: Any, organization: str | None) -> tuple[UUID | None, WhatsApp]:
    from onceward.services import NotSet
    from onceward.trust import find_organization
    from onceward.trust.secrets import OrganizationSecrets, secret_box

    whose: UUID | None = None
    if organization is not None:
        async with db.acquire() as conn:
            whose = (await find_organization(conn, organization)).organization_id
        services.use_secrets(OrganizationSecrets(db, secret_box(settings_here())))
    try:
        return whose, await services.whatsapp(whose)
    except NotSet as error:
        raise CommandFailed(str(error)) from None


@group.command("status")
def status(as_json: JsonOption = False) -> None:
    """List what Meta has reported about templates, numbers and accounts by webhook, the latest first."""
    from onceward.messages.service_states import list_states

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await list_states(db, "whatsapp")

    columns = ("account", "subject", "state", "reason", "changed_at", "organization_id")
    listing(run(main()), columns=columns, as_json=as_json, empty="Meta has reported nothing")
