"""`ledger check|balance|statement|export|close`: recompute, read and close the ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.progress import progress
from onceward.cli.rendering import JsonOption, document, listing, say, verdict
from onceward.cli.session import opened_database, run

BALANCE_COLUMNS = ("code", "currency", "kind", "debits", "credits", "balance", "available")
STATEMENT_COLUMNS = ("entry_id", "at", "journal_kind", "key", "other", "amount", "balance", "memo")

group = typer.Typer(
    no_args_is_help=True,
    help="The ledger: `check` it, show a `balance` or a `statement`, `export` entries, `close` a period.",
)
Organization = Annotated[str, typer.Option("--organization", "-o", help="Slug or id of the organization.")]
Currency = Annotated[str, typer.Option("--currency", "-c", help="Currency code of three capital letters.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="ledger")


@group.command("check")
def check(
    full: Annotated[
        bool, typer.Option("--full", help="Check every journal again, also those that an earlier run has proven.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute the ledgers of all organizations from their entries. Changes nothing; exits with 1 on a difference.

    Journals, entries and checkpoints are checked since the last run without problems; what depends on sums of all
    entries (bounded accounts, reversals, pending journals) always from the beginning.
    """
    from onceward.ledger.checks import CHECKS
    from onceward.trust.invariants import verify

    async def work() -> list[Any]:
        async with opened_database() as db:
            with progress() as tell:
                return await verify(db, CHECKS, full=full, tell=tell)

    results = run(work())
    if as_json:
        document([{"check": one.name, "ok": one.ok, "problems": one.problems} for one in results])
    else:
        for one in results:
            verdict("ok" if one.ok else "fail", one.name, "; ".join(one.problems) or f"holds ({one.seconds:.2f} s)")
    if not all(one.ok for one in results):
        raise typer.Exit(Exit.FAILED)


@group.command("balance")
def balance(
    organization: Organization,
    account: Annotated[
        str | None, typer.Argument(metavar="[ACCOUNT]", help="Code of the account; all accounts if not given.")
    ] = None,
    currency: Annotated[str | None, typer.Option("--currency", "-c", help="Only this currency.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="As they were before this day (2031-02-01) or time.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show balances in minor units. Without an account, show the trial balance with its totals."""
    trials = run(_trials(organization, currency, None if until is None else _time(until, "--until")))
    rows = [
        {**asdict(line), "available": line.available}
        for trial in trials
        for line in trial.accounts
        if account in (None, line.code)
    ]
    if account is not None and not rows:
        raise CommandFailed(f"there is no account {account}" + (f" in {currency}" if currency else ""))
    listing(rows, columns=BALANCE_COLUMNS, as_json=as_json, empty="no accounts")
    if account is None and not as_json:
        for trial in trials:
            state = "balanced" if trial.difference == 0 else f"OUT OF BALANCE by {trial.difference}"
            say(f"{trial.currency}: debits {trial.debits}, credits {trial.credits}, {state}")
    if any(trial.difference for trial in trials):
        raise typer.Exit(Exit.FAILED)


@group.command("export")
def export(
    organization: Organization,
    since: Annotated[str, typer.Option("--since", help="First day, such as 2031-01-01, or an ISO time with offset.")],
    until: Annotated[str, typer.Option("--until", help="The day or time before which it ends.")],
    format: Annotated[
        Literal["csv", "journal"],
        typer.Option("--format", help="csv, or journal: the plain text that Ledger and hledger read."),
    ] = "csv",
    file: Annotated[
        Path | None, typer.Option("--file", help="The file to write; without it, to standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Write the posted entries of a period, for accountants."""
    begins, ends = _time(since, "--since"), _time(until, "--until")

    async def work() -> str:
        from onceward import ledger

        async with _books(organization) as tx:
            return "".join([text async for text in ledger.export(tx, begins, ends, format=format)])

    text = run(work())
    if file is None:
        typer.echo(text, nl=False)
    else:
        file.write_text(text, encoding="utf-8")
        say(f"{file} has the entries")


@group.command("close")
def close(
    organization: Organization,
    until: Annotated[str, typer.Option("--until", help="The day or time before which the period ends.")],
    note: Annotated[str, typer.Option("--note", help="What to remember about it.")] = "",
) -> None:
    """Close the books before a time: the balances of all accounts are frozen. A repeat changes nothing."""
    ends = _time(until, "--until")

    async def work() -> Any:
        from onceward import ledger

        async with _books(organization) as tx:
            try:
                return await ledger.close_period(tx, ends, note=note, actor="cli")
            except ledger.LedgerError as error:
                raise CommandFailed(str(error)) from error

    period = run(work())
    say(f"the books before {period.until.isoformat()} are closed, with {len(period.balances)} accounts")


def _time(text: str, option: str) -> datetime:
    """Read a day (its beginning in UTC) or a time with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{option} {text!r}: use 2031-01-31 or 2031-01-31T00:00:00+02:00", Exit.USAGE) from None
    if len(text) > 10 and at.utcoffset() is None:
        raise CommandFailed(f"{option} {text!r} has no offset from UTC: add +02:00, or Z for UTC", Exit.USAGE)
    return at if at.utcoffset() is not None else at.replace(tzinfo=UTC)


@asynccontextmanager
async def _books(organization: str) -> AsyncGenerator[Any]:
    from onceward.trust.organizations import find_organization

    async with opened_database() as db, db.acquire() as conn:
        owner = await find_organization(conn, organization)
        async with db.transaction(organization=owner.organization_id) as tx:
            yield tx


@group.command("statement")
def statement(
    organization: Organization,
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Code of the account.")],
    currency: Currency,
    after: Annotated[int, typer.Option("--after", help="Start after this entry id.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="The maximum number of entries.", min=1)] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show an account's entries in order, with the running balance."""
    lines = run(_statement(organization, account, currency, after, limit))
    listing([asdict(line) for line in lines], columns=STATEMENT_COLUMNS, as_json=as_json, empty="no entries")


async def _trials(organization: str, currency: str | None, until: datetime | None) -> list[Any]:
    from onceward import ledger

    async with _books(organization) as tx:
        return await ledger.trial_balance(tx, currency=currency, until=until)


async def _statement(organization: str, account: str, currency: str, after: int, limit: int) -> list[Any]:
    from onceward import ledger

    async with _books(organization) as tx:
        try:
            return await ledger.statement(tx, account, currency=currency, after=after, limit=limit)
        except ledger.LedgerError as error:
            raise CommandFailed(str(error)) from error
