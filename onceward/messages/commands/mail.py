"""The commands `mail check|receive|domains|suppressions`: what decides whether mail arrives, and who gets none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import opened_database, run, settings_here

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.db import Database
    from onceward.messages.mail_check import MailFinding

BY = "operator:cli"
MAX_MAIL_BYTES = 20 * 1024 * 1024

group = typer.Typer(no_args_is_help=True, help="Check that mail arrives, take in bounces, and see who gets no mail.")
domains = typer.Typer(no_args_is_help=True, help="Domains that mail is sent from, and their DKIM keys.")
suppressions = typer.Typer(no_args_is_help=True, help="Addresses that get no more mail: they bounced or complained.")
group.add_typer(domains, name="domains")
group.add_typer(suppressions, name="suppressions")

OrganizationOption = Annotated[
    str | None, typer.Option("--organization", "-o", help="Slug or id of the organization. Default: the installation.")
]
Domain = Annotated[str, typer.Argument(help="Domain of the sender's address, such as mail.example.org.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="mail")


async def _organization(db: Database, name: str | None) -> UUID | None:
    from onceward.trust import find_organization

    if name is None:
        return None
    async with db.acquire() as conn:
        return (await find_organization(conn, name)).organization_id


@group.command("check")
def check(
    to: Annotated[str | None, typer.Option("--to", help="Also send a test mail to this address.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check SPF, DKIM, DMARC and MX of the senders' domains, and TLS at the relay. Exits with 1 if mail may not arrive.

    A DKIM key whose record is found in DNS signs from then on.
    """
    from onceward.messages.mail_check import worst

    found = run(_check(to))
    rows = [{"check": f.check, "name": f.name, "verdict": f.verdict, "detail": f.detail} for f in found]
    listing(rows, columns=("check", "name", "verdict", "detail"), as_json=as_json)
    if worst(found) == "fail":
        raise CommandFailed("mail may not arrive: see the lines with `fail`")


async def _check(to: str | None) -> list[MailFinding]:
    from email.utils import parseaddr

    from onceward.messages import mail_check
    from onceward.messages.mail_domains import load_keys, mark_verified
    from onceward.messages.mail_test import check_relay
    from onceward.messages.settings import MessagesSettings
    from onceward.trust.secrets import secret_box

    settings = settings_here()
    own = settings.of(MessagesSettings)
    sender = parseaddr(own.mail_from)[1].rpartition("@")[2].lower()
    returns = None if own.mail_return_path is None else own.mail_return_path.rpartition("@")[2].lower()
    dns = mail_check.SystemDns()
    found: list[MailFinding] = []
    async with opened_database() as db:
        keys = await load_keys(db, secret_box(settings))
        for id, key in keys:
            here = await mail_check.check_domain(dns, key.domain, return_domain=returns, key=key)
            is_verified = any(each.check == "DKIM" and each.verdict == "ok" for each in here)
            async with db.transaction(role="engine") as tx:
                await mark_verified(tx, id, is_verified=is_verified)
            found += here
    if all(key.domain != sender for _, key in keys):
        found += await mail_check.check_domain(dns, sender, return_domain=returns, key=None)
    return found + await check_relay(settings, to=to)


@group.command("receive")
def receive(
    envelope_to: Annotated[
        str | None, typer.Option("--to", help="Address that the mail was delivered to, if the mail server knows it.")
    ] = None,
) -> None:
    """Read a bounce or complaint from standard input and apply it. A mail server runs this for the bounce address.

    Exits with 75 (try again later) if the database does not answer, so that the mail server keeps the mail.
    """
    content = sys.stdin.buffer.read(MAX_MAIL_BYTES + 1)
    if len(content) > MAX_MAIL_BYTES:
        raise CommandFailed(f"the mail has more than {MAX_MAIL_BYTES} bytes, so it is not a bounce")
    try:
        outcome = run(_receive(content, envelope_to))
    except (OSError, CommandFailed) as error:
        if isinstance(error, CommandFailed) and error.code != Exit.DATABASE:
            raise
        typer.echo("error: the database does not answer: the mail server should try again", err=True)
        raise typer.Exit(75) from None
    say(outcome)


async def _receive(content: bytes, envelope_to: str | None) -> str:
    from onceward.messages.bounces import apply_mail_report, read_report
    from onceward.messages.mail_domains import bounce_secrets
    from onceward.messages.settings import MessagesSettings

    settings = settings_here()
    return_path = settings.of(MessagesSettings).mail_return_path
    if return_path is None:
        raise CommandFailed("ONCEWARD_MAIL_RETURN_PATH is not set, so no mail of ours asks for bounces", Exit.USAGE)
    report = read_report(content, return_path=return_path, secrets=bounce_secrets(settings), envelope_to=envelope_to)
    if report is None:
        return "not a report about one of our mails"
    async with opened_database() as db, db.transaction(role="engine") as tx:
        return await apply_mail_report(tx, report)


@domains.command("add")
def add(
    domain: Domain,
    sender: Annotated[
        str | None, typer.Option("--from", help="Sender of the organization's mails, such as `Acme <hello@acme.org>`.")
    ] = None,
    selector: Annotated[str, typer.Option(help="First part of the name of the DNS record.")] = "onceward",
    organization: OrganizationOption = None,
) -> None:
    """Create a DKIM key for a domain and print its DNS record. It signs once `onceward mail check` finds the record."""
    from onceward.messages.mail_domains import add_domain
    from onceward.trust.secrets import secret_box

    async def main() -> Any:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine") as tx:
                return await add_domain(
                    tx, secret_box(settings_here()), domain, organization=whose, sender=sender, selector=selector, by=BY
                )

    try:
        key = run(main())
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    say("publish this DNS record, then run `onceward mail check`:")
    say(f'{key.name}. TXT "{key.record}"')


@domains.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the domains. One without `verified_at` signs nothing, because its DNS record was not found yet."""
    from onceward.messages.mail_domains import list_domains

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await list_domains(db)

    columns = ("domain", "selector", "sender", "organization_id", "created_at", "verified_at")
    listing(run(main()), columns=columns, as_json=as_json, empty="no domain has a key: the relay must sign")


@domains.command("rm")
def rm(domain: Domain, organization: OrganizationOption = None) -> None:
    """Remove a domain and its key."""
    from onceward.messages.mail_domains import remove_domain

    async def main() -> bool:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine") as tx:
                return await remove_domain(tx, domain, organization=whose, by=BY)

    if not run(main()):
        raise CommandFailed(f"there is no key for {domain!r}")
    say("removed")


@suppressions.command("ls")
def list_suppressed(
    organization: OrganizationOption = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Of all organizations.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of addresses.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the addresses that get no more mail, newest first. Of an erased person only the hash is left."""
    from onceward.messages.suppression import list_suppressions

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            return await list_suppressions(db, organization=whose, everywhere=everywhere, limit=limit)

    columns = ("address", "hash", "reason", "status", "source", "message", "organization_id", "created_at")
    listing(run(main()), columns=columns, as_json=as_json, empty="no address is suppressed")


@suppressions.command("add")
def add_suppressed(
    address: Annotated[str, typer.Argument(help="The mail address.")],
    reason: Annotated[str, typer.Option(help="Why it gets no more mail; kept in the audit log.")],
    organization: OrganizationOption = None,
) -> None:
    """Send no more mail to an address."""
    from onceward.messages.recipient import EMAIL
    from onceward.messages.suppression import suppress_by_hand

    if EMAIL.match(address.strip()) is None:
        raise CommandFailed(f"{address[:80]!r} is not a mail address: write it as somebody@example.org", Exit.USAGE)

    async def main() -> bool:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine", organization=whose) as tx:
                return await suppress_by_hand(tx, address.strip(), source="cli", by=BY, reason=reason)

    say("the address gets no more mail" if run(main()) else "the address gets no mail already")


@suppressions.command("rm")
def unsuppress(
    address: Annotated[str, typer.Argument(help="The address, or the first 12 characters of its hash.")],
    reason: Annotated[str | None, typer.Option(help="Why mail may be sent again; kept in the audit log.")] = None,
    organization: OrganizationOption = None,
) -> None:
    """Allow mail to an address again."""
    from onceward.messages.suppression import remove_suppression

    async def main() -> bool:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine") as tx:
                return await remove_suppression(tx, address, organization=whose, by=BY, reason=reason)

    if not run(main()):
        raise CommandFailed("the address is not suppressed")
    say("mail to this address is sent again")
