"""`payments ls|show|refund|refund-many|repeat|settle|check|accounts`: what operators do with money."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from onceward.cli.app_commands import ACTOR, OrganizationOption, transaction_for
from onceward.cli.app_loader import AppOption, load_app
from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, complain, document, listing, say
from onceward.cli.session import configure_process, run, settings_here
from onceward.payments.commands.accounts import accounts

if TYPE_CHECKING:
    from onceward.tx import Tx

COLUMNS = (
    "id",
    "subject_type",
    "subject_id",
    "status",
    "amount",
    "received",
    "refunded",
    "withheld",
    "currency",
    "account",
)
Status = Literal[
    "created", "open", "processing", "paid", "partly_refunded", "refunded", "disputed", "lost", "failed", "expired"
]
DIFFERENCE_COLUMNS = ("account", "kind", "reference", "payment", "detail")

group = typer.Typer(
    no_args_is_help=True, help="Payments: list, show, refund one or many, repeat or settle a refund; check, accounts."
)
group.add_typer(accounts, name="accounts")

PaymentArgument = Annotated[UUID, typer.Argument(metavar="PAYMENT", help="Id of the payment.")]
RefundArgument = Annotated[UUID, typer.Argument(metavar="REFUND", help="Id of the refund.")]
Reason = Annotated[str, typer.Option("--reason", help="The reason, for the buyer's record and the audit log.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="payments")


def _acting(app: str | None, organization: str) -> AbstractAsyncContextManager[Tx]:
    from onceward.errors import OncewardError

    return transaction_for(load_app(app), organization, refusals=OncewardError)


@group.command("ls")
def ls(
    organization: OrganizationOption,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="An id, a subject, an address, an id at the service, a name or a code."),
    ] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only payments in this state.")] = None,
    before: Annotated[UUID | None, typer.Option("--before", help="The last payment of the previous page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List payments, newest first."""
    from onceward.payments import payment_search

    async def work() -> list[dict[str, Any]]:
        async with _acting(app, organization) as tx:
            return await payment_search.find(tx, text=text, status=status, before=before, limit=limit)

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no payments")


@group.command("show")
def show(payment: PaymentArgument, organization: OrganizationOption, app: AppOption = None) -> None:
    """Show one payment as JSON, with its refunds, disputes, names at the service and journals."""
    from onceward.payments import payment_search

    async def work() -> dict[str, Any] | None:
        async with _acting(app, organization) as tx:
            return await payment_search.show(tx, payment)

    found = run(work())
    if found is None:
        raise CommandFailed(f"there is no payment {payment} in {organization}")
    document(found)


@group.command("refund")
def refund(
    payment: PaymentArgument,
    organization: OrganizationOption,
    reason: Reason,
    amount: Annotated[
        int | None, typer.Option("--amount", min=1, help="In minor units. Default: all that remains at the service.")
    ] = None,
    app: AppOption = None,
) -> None:
    """Refund a payment. A job asks the service."""

    async def work() -> Any:
        from onceward.money import Money

        async with _acting(app, organization) as tx:
            found = await tx.payments.get(payment)
            money = None if amount is None or found is None else Money(amount, found.amount.currency)
            return await tx.payments.refund(payment, amount=money, reason=reason, by=ACTOR)

    made = run(work())
    nothing = "nothing is left to refund: a refund is under way, or a dispute holds the money"
    say(nothing if made is None else f"refund {made.id} of {made.amount} is requested")


@group.command("refund-many")
def refund_many(
    organization: OrganizationOption,
    reason: Reason,
    payments: Annotated[list[UUID] | None, typer.Argument(metavar="[PAYMENT]...", help="Ids of payments.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file with one payment id in each line; `-` is standard input.")
    ] = None,
    percent: Annotated[int | None, typer.Option("--percent", min=1, max=100, help="Of what each buyer paid.")] = None,
    per_minute: Annotated[int, typer.Option("--per-minute", min=1, max=6000, help="How many each minute.")] = 60,
    app: AppOption = None,
) -> None:
    """Refund many payments at a rate. Accounting gets a report when the service has answered every call."""
    ids = [*(payments or ()), *(() if file is None else _ids_in(file))]

    async def work() -> Any:
        async with _acting(app, organization) as tx:
            options: dict[str, Any] = {"percent": percent, "per_minute": per_minute, "by": ACTOR}
            return await tx.payments.refund_many(ids, reason=reason, **options)

    made = run(work())
    many = "1 refund starts" if made.total == 1 else f"{made.total} refunds start, {per_minute} each minute"
    say(f"{many}; see `onceward payments refund-batch {made.id} -o {organization}`")


def _ids_in(path: Path) -> list[UUID]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
    ids: list[UUID] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                ids.append(UUID(line.strip()))
            except ValueError:
                raise CommandFailed(f"line {number} is not the id of a payment: {line.strip()[:60]!r}") from None
    return ids


@group.command("refund-batch")
def refund_batch(
    batch: Annotated[UUID, typer.Argument(metavar="BATCH", help="The id that `refund-many` printed.")],
    organization: OrganizationOption,
    stop: Annotated[bool, typer.Option("--stop", help="Ask for no further refunds of it.")] = False,
    app: AppOption = None,
) -> None:
    """Show as JSON how many refunds at once stand, with the payments that could not be refunded."""

    async def work() -> Any:
        from onceward.payments.batches import summary

        async with _acting(app, organization) as tx:
            return summary(await tx.payments.refund_batch(batch, stop=stop))

    document(run(work()))


@group.command("repeat")
def repeat(refund: RefundArgument, organization: OrganizationOption, app: AppOption = None) -> None:
    """Ask the service again for a refund that failed, or whose call has stopped."""

    async def work() -> Any:
        async with _acting(app, organization) as tx:
            return await tx.payments.repeat(refund)

    say(f"refund {run(work()).id} is requested again")


@group.command("settle")
def settle(
    refund: RefundArgument,
    organization: OrganizationOption,
    note: Annotated[str, typer.Option("--note", help="How the buyer got the money.")],
    app: AppOption = None,
) -> None:
    """Record that the buyer got the money of a refund another way. It never starts again."""

    async def work() -> Any:
        async with _acting(app, organization) as tx:
            return await tx.payments.settle(refund, note=note)

    say(f"refund {run(work()).id} is settled")


@group.command("check")
def check(
    account: Annotated[str | None, typer.Option("--account", help="Check only accounts with this name.")] = None,
    since: Annotated[
        str, typer.Option("--since", help="Check what moved since: 12h or 7d ago, or an ISO time.")
    ] = "7d",
    grace: Annotated[
        str, typer.Option("--grace", help="Leave out payments that changed after this time: 30m or 4h ago.")
    ] = "4h",
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Compare the balance at the payment services with our tables and journals.

    Prints and stores what differs. Exits with 1 if something differs or an account could not be checked.
    """
    from onceward.cli.moments import moment
    from onceward.payments.account_check import check_accounts

    begin, end = moment(since), moment(grace)
    assert begin is not None
    assert end is not None
    loaded, settings = load_app(app), settings_here(log_level="warning")
    configure_process(settings)

    async def work() -> Any:
        async with loaded.engine(settings=settings) as engine:
            return await check_accounts(engine, loaded.services, name=account, since=begin, settled_until=end)

    checked = run(work())
    if account is not None and not checked:
        raise CommandFailed(f"there is no payment account {account!r}: see `onceward payments accounts ls`")
    rows = [
        {
            "account": each.account,
            "kind": one.kind,
            "reference": one.reference,
            "payment": one.payment_id,
            "detail": one.detail,
        }
        for each in checked
        for one in each.differences
    ]
    if as_json or rows or not all(each.failure for each in checked):
        listing(rows, columns=DIFFERENCE_COLUMNS, as_json=as_json, empty="no differences")
    for each in checked:
        owner = "" if each.organization is None else f" of organization {each.organization}"
        counts = f"{each.compared} payments compared, {each.in_progress} in progress, {each.foreign} foreign movements"
        counts += f", {each.booked} fees and payouts booked"
        if each.failure is not None:
            complain(f"{each.account} ({each.service}){owner} is not checked: {each.failure}")
        elif not as_json:
            say(f"{each.account} ({each.service}){owner}: {counts}")
    if rows or any(each.failure for each in checked):
        raise typer.Exit(Exit.FAILED)
