"""The daily run: goodbyes to inactive users, and the end of waiting for those who did not answer. Nothing else is sent.

0. goodbyes are reconciled with what became of their message;
1. users without activity for 14 days get the goodbye;
2. users who did not answer within 48 hours are dormant, without a message;
3. users who answered `later` are dormant after 14 days, without a message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

from onceward import BatchResult, Run, Tx
from onceward_apps.engagement import eligibility, metrics
from onceward_apps.engagement.activity import set_opt_out
from onceward_apps.engagement.app import app, settings
from onceward_apps.engagement.message_queue import QueuedMessage, queue_messages
from onceward_apps.engagement.model import Trigger, goodbye_key
from onceward_apps.engagement.run_reports import JobResult, Row, Step, item_key
from onceward_apps.engagement.store import candidates, pauses, states, views
from onceward_apps.engagement.store.states import Due
from onceward_apps.engagement.transitions import times, transition_many

DAILY = "engagement-daily"
GIVEN_UP = "goodbye_given_up"
NO_NUMBER = "no_number"
RETURN_TIME = timedelta(days=14)
"""Who comes back within this time after the goodbye has returned."""


@app.cron("0 6 * * *", name=DAILY)
async def run_daily_engagement_job(run: Run) -> JobResult:
    """Do the four checks for every organization. A second run on the same day changes nothing."""
    step = Step(run, DAILY)
    step.started()
    size = settings().batch_size
    organizations = await candidates.organizations(run.fetch)
    until = await run.fetchval("select onceward.now()") + times().answer
    for organization in organizations:
        after = candidates.FIRST_TIME, candidates.FIRST_USER
        while after is not None:
            async with run.transaction(organization=organization) as tx:
                after = await states.move_expiry(tx, times().answer, after=after, until=until, size=size)

    async def given_up() -> AsyncGenerator[Row]:
        for organization in organizations:
            async for row in candidates.given_up(run.fetch, organization, size=size):
                yield row

    async def inactive() -> AsyncGenerator[Row]:
        for organization in await pauses.running(run.fetch, "goodbye", organizations):
            async for row in candidates.inactive(run.fetch, organization, period=settings().inactivity, size=size):
                yield row

    async def expired() -> AsyncGenerator[Row]:
        for organization in organizations:
            async for row in candidates.expired(run.fetch, organization, size=size):
                yield row

    async def reminders() -> AsyncGenerator[Row]:
        for organization in organizations:
            async for row in candidates.reminders(run.fetch, organization, size=size):
                yield row

    await step.each(GIVEN_UP, given_up(), take_back)
    await step.each("inactivity_14d", inactive(), say_goodbye)
    await step.each("goodbye_timeout", expired(), end_waiting)
    await step.each("reminder_due", reminders(), end_reminder)
    for organization in organizations:
        async with run.transaction(organization=organization) as tx:
            await states.count_returns(tx, RETURN_TIME)
    return await step.completed()


async def take_back(step: Step, rows: list[Row], tx: Tx) -> BatchResult:
    """Return users to active whose goodbye was given up. They count as failed, except those who opted out meanwhile."""
    moved = {each.user_id for each in await transition_many(tx, GIVEN_UP, [row["user_id"] for row in rows])}
    suppressed = {row["user_id"] for row in rows if row["reason"] == "opted_out" and row["user_id"] in moved}
    # What counts is what the user wants now: an opt-in may have followed the opt-out that stopped the message.
    for user in await views.opted_out_now(tx, list(suppressed)):
        await set_opt_out(tx, user, True, actor="messages")
    failed = {row["user_id"]: row["reason"] for row in rows if row["user_id"] in moved - suppressed}
    configured = settings()
    unreachable = await states.goodbye_failed(
        tx, list(failed), retry=timedelta(days=configured.retry_days), most=configured.most_goodbyes
    )
    texts = {
        user: f"goodbye not sent: {reason}" + ("; unreachable" if unreachable.get(user) else "")
        for user, reason in failed.items()
    }
    for user, text in texts.items():
        step.log_failure(GIVEN_UP, user, text)
    numberless = sum(reason == "no_address" for reason in failed.values())
    tx.after_commit(lambda: _count_given_up(numberless, len(failed) - numberless))
    skipped = [item_key(row) for row in rows if row["user_id"] not in failed]
    keys = {row["user_id"]: item_key(row) for row in rows}
    return BatchResult(skipped=skipped, failed={keys[user]: text for user, text in texts.items()})


def _count_given_up(no_address: int, refused: int) -> None:
    metrics.GIVEN_UP.labels("no_address").inc(no_address)
    metrics.GIVEN_UP.labels("refused").inc(refused)


async def say_goodbye(_step: Step, rows: list[Row], tx: Tx) -> BatchResult:
    """Queue the goodbye for inactive users. Users of the holdout group move without a message."""
    if await pauses.is_paused(tx, "goodbye"):  # since the run began
        return BatchResult(skipped=[item_key(row) for row in rows])
    now = await views.now(tx)
    decisions = {row["user_id"]: eligibility.goodbye(row, now, settings()) for row in rows}
    numberless = [row["user_id"] for row in rows if row["whatsapp_jid"] is None and not row["reengagement_opt_out"]]
    if numberless:
        await states.mark_unreachable(tx, numberless, NO_NUMBER)
    chosen = {row["user_id"]: row for row in rows if not decisions[row["user_id"]].skips}
    without = {user: decisions[user].action == "goodbye held out" for user in chosen}
    moved = await transition_many(
        tx,
        "inactivity_14d",
        list(chosen),
        due="inactive",
        keys=[None if without[user] else goodbye_key(user, now) for user in chosen],
        held_out=list(without.values()),
    )
    told = [each.user_id for each in moved if not without[each.user_id]]
    await queue_messages(tx, "goodbye", [_goodbye(chosen[user], goodbye_key(user, now), now) for user in told])
    tx.after_commit(lambda: metrics.QUEUED.labels("goodbye").inc(len(told)))
    done = {each.user_id for each in moved}
    skipped = [item_key(row) for row in rows if row["user_id"] not in done]
    return BatchResult(skipped=skipped)


def _goodbye(row: Row, key: str, now: Any) -> QueuedMessage:
    return QueuedMessage(
        user_id=row["user_id"],
        message_type="goodbye",
        idempotency_key=key,
        message_params={"days": (now - row["at"]).days},
        destination=row["preferred_destination"],
        destination_jid=row["whatsapp_jid"],
        locale=row["locale"],
    )


async def end_waiting(_step: Step, rows: list[Row], tx: Tx) -> BatchResult:
    return await _end(rows, tx, "goodbye_timeout", "expired")


async def end_reminder(_step: Step, rows: list[Row], tx: Tx) -> BatchResult:
    return await _end(rows, tx, "reminder_due", "reminder")


async def _end(rows: list[Row], tx: Tx, trigger: Trigger, due: Due) -> BatchResult:
    """Make users dormant without a message."""
    users = [row["user_id"] for row in rows if not row["reengagement_opt_out"]]
    moved = {each.user_id for each in await transition_many(tx, trigger, users, due=due)}
    skipped = [item_key(row) for row in rows if row["user_id"] not in moved]
    return BatchResult(skipped=skipped)
