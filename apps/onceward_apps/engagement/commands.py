"""Commands `onceward engagement`: look at the funnel and at users, dry runs, a simulation, a test message."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from onceward.cli import (
    ACTOR,
    CommandFailed,
    Exit,
    JsonOption,
    OrganizationOption,
    document,
    features_with,
    listing,
    opened_database,
    run,
    say,
    transaction_for,
)

if TYPE_CHECKING:
    from onceward_apps.engagement.simulation import Day

group = typer.Typer(no_args_is_help=True, help="Goodbyes and weekly reviews: who gets what, and why.")
acting = partial(
    transaction_for, "onceward_apps.engagement:app", refusals="onceward_apps.engagement.errors:EngagementError"
)
"""Open a transaction for an organization, given by slug or id."""

UserArgument = Annotated[UUID, typer.Argument(metavar="USER", help="Id of the user.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="engagement")


@group.command("funnel")
def funnel(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """Count the users in each state, with yesterday's moves."""
    from onceward_apps.engagement.overview import overview

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            return await overview(tx, tx.organization)

    seen = run(work())
    if as_json:
        document(seen)
        return
    listing(seen["funnel"], columns=("state", "users", "share", "moved_in", "moved_out"), as_json=False)
    say(f"opted out: {seen['opted_out']}, unreachable: {seen['unreachable']}")


@group.command("user")
def user(user_id: UserArgument, organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """Show the history of one user: why they got a message, why not."""
    from onceward_apps.engagement.overview import user_history

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            return await user_history(tx, tx.organization, user_id)

    seen = run(work())
    if as_json:
        document(seen)
        return
    for sentence in seen["explanation"]:
        say(sentence)
    say("")
    listing(seen["history"], columns=("at", "what", "text"), as_json=False, empty="nothing has happened yet")


@group.command("preview")
def preview(
    organization: OrganizationOption,
    job: Annotated[Literal["daily", "weekly"], typer.Option("--job", help="daily or weekly.")] = "daily",
    limit: Annotated[int, typer.Option("--limit", help="Users to list; all are counted.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Dry run: list who would get what now, and why. Changes nothing."""
    from dataclasses import asdict

    from onceward_apps.engagement.eligibility import preview as previewed

    async def work() -> tuple[list[dict[str, Any]], Counter[str]]:
        counts: Counter[str] = Counter()
        listed: list[dict[str, Any]] = []
        async with acting(organization) as tx:
            assert tx.organization is not None
            async for each in previewed(tx, tx.organization, job):
                counts[each.action] += 1
                if len(listed) < limit:
                    listed.append(asdict(each))
        return listed, counts

    listed, counts = run(work())
    if as_json:
        document({"counts": dict(counts), "users": listed})
        return
    listing(
        listed, columns=("user_id", "check_type", "action", "why"), as_json=False, empty="this run would do nothing now"
    )
    if counts:
        say(", ".join(f"{action}: {count}" for action, count in counts.most_common()))


@group.command("campaigns")
def campaigns_of(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """Show the two campaigns: paused or running, what is queued, and what the messages say."""
    from dataclasses import asdict

    from onceward_apps.engagement.campaigns import campaigns

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            assert tx.organization is not None
            return [asdict(each) for each in await campaigns(tx, tx.engine, tx.organization)]

    seen = run(work())
    if as_json:
        document(seen)
        return
    for campaign in seen:
        state = f"paused by {campaign['paused_by']}" if campaign["paused_at"] else "running"
        say(f"{campaign['campaign']}: {state}, {campaign['queued']} queued")
        for text in campaign["texts"]:
            say(f"  {text['template']}, {text['locale']}:")
            for line in text["text"].splitlines():
                say(f"    {line}")


CampaignArgument = Annotated[
    Literal["goodbye", "weekly_review"], typer.Argument(metavar="CAMPAIGN", help="goodbye or weekly_review.")
]


@group.command("pause")
def pause(campaign: CampaignArgument, organization: OrganizationOption) -> None:
    """Queue no more messages of a campaign. Messages that are queued already are still sent."""
    from onceward_apps.engagement import campaigns

    async def work() -> bool:
        async with acting(organization) as tx:
            return await campaigns.pause(tx, campaign, actor=ACTOR)

    say(f"{campaign} is paused" if run(work()) else f"{campaign} was paused already")


@group.command("resume")
def resume(campaign: CampaignArgument, organization: OrganizationOption) -> None:
    """Let the next run queue messages of a campaign again."""
    from onceward_apps.engagement import campaigns

    async def work() -> bool:
        async with acting(organization) as tx:
            return await campaigns.resume(tx, campaign, actor=ACTOR)

    say(f"{campaign} runs again" if run(work()) else f"{campaign} was not paused")


@group.command("returns")
def returns(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """Show the share of users who returned within 14 days, with and without a goodbye."""
    from onceward_apps.engagement.overview import returned

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return await returned(tx, tx.organization)

    listing(
        run(work()),
        columns=("group", "users", "returned", "share"),
        as_json=as_json,
        empty="no goodbye is older than 14 days yet",
    )


@group.command("opt-out")
def opt_out(
    user_id: UserArgument,
    organization: OrganizationOption,
    undo: Annotated[bool, typer.Option("--undo", help="Opt the user in again.")] = False,
) -> None:
    """Stop all messages of this app to a user."""
    from onceward_apps.engagement.activity import set_opt_out

    async def work() -> bool:
        async with acting(organization) as tx:
            return await set_opt_out(tx, user_id, not undo, actor=ACTOR)

    now = "opted in" if undo else "opted out"
    say(f"{user_id} is {now}" if run(work()) else f"{user_id} was {now} already")


@group.command("test-send")
def send_test_message(
    number: Annotated[str, typer.Argument(help="Your own WhatsApp number, such as +5511987654321.")],
    organization: OrganizationOption,
    message: Annotated[
        Literal["goodbye", "weekly_review"], typer.Option("--message", help="Which message.")
    ] = "goodbye",
    locale: Annotated[str, typer.Option("--locale", help="Language, such as pt-BR.")] = "en",
) -> None:
    """Send a message with sample data to yourself. It changes no user."""
    from onceward_apps.engagement.errors import InvalidProfile
    from onceward_apps.engagement.message_queue import send_test

    async def work() -> int:
        async with acting(organization) as tx:
            return (await send_test(tx, message, number, locale=locale, actor=ACTOR)).id

    try:
        say(f"message {run(work())} is queued; a worker sends it")
    except InvalidProfile as error:
        raise CommandFailed(str(error), Exit.USAGE) from error


@group.command("simulate")
def simulate(
    days: Annotated[int, typer.Option("--days", min=1, max=3650, help="Days to simulate.")] = 90,
    users: Annotated[int, typer.Option("--users", min=1, max=100_000, help="Users to generate.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same days.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run the real code on a moved clock over generated users, and show what would have been sent. Sends nothing.

    Uses a scratch database on the configured server, and drops it at the end.
    """
    from dataclasses import asdict

    import asyncpg

    from onceward_apps.engagement import app, simulation

    show, finish = _progress(days, as_json)

    async def work() -> simulation.Simulated:
        async with opened_database() as db:
            return await simulation.simulate(
                db.url, features_with(app).migrations, days=days, users=users, seed=seed, on_day=show
            )

    try:
        done = run(work())
    except asyncpg.InsufficientPrivilegeError as error:
        raise CommandFailed(
            "the simulation needs a database of its own: grant CREATEDB to the user of ONCEWARD_DATABASE_URL"
        ) from error
    finally:
        finish()
    if as_json:
        document(
            {"users": users, "sent": done.sent, "returns": done.returns, "days": [asdict(day) for day in done.days]}
        )
        return
    rows = [
        {
            "date": day.date,
            "goodbyes": day.goodbyes,
            "reviews": day.reviews,
            "dormant": day.dormant,
            "failed": day.failed,
        }
        | day.states
        for day in done.days
        if day.goodbyes or day.reviews or day.dormant or day.failed
    ]
    listing(
        rows,
        columns=(
            "date",
            "goodbyes",
            "reviews",
            "failed",
            "active",
            "goodbye_sent",
            "remind_later",
            "help_flow",
            "dormant",
        ),
        as_json=False,
    )
    say(f"{users} users, {days} days: {done.sent['goodbye']} goodbyes and {done.sent['weekly_review']} weekly reviews")


def _progress(days: int, as_json: bool) -> tuple[Callable[[Day], None], Callable[[], None]]:
    """Return a function that shows a finished day, and one that ends the display."""
    if as_json or not sys.stdout.isatty():
        return lambda _day: None, lambda: None
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar.start()
    task = bar.add_task("simulating", total=days)
    return lambda day: bar.update(task, advance=1, description=day.date), bar.stop
