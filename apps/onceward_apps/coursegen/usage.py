"""Compare bookings that are estimates with what the service counted, where it has a usage API.

A call whose tokens the service did not report (it timed out, broke or was stopped) is booked with its reservation. Two
days later the account's own count is known. What it has beyond the reported calls is what the others cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from onceward import Run
from onceward.services import ChatError, NotSet, Usage
from onceward.telemetry import get_logger
from onceward_apps.coursegen.app import app, plan
from onceward_apps.coursegen.models import PROVIDERS
from onceward_apps.coursegen.store import calls, costs

COMPLETE_AFTER = timedelta(days=2)
"""The service counts with a delay; by then a day is complete."""
DAYS = 7
"""Days for which the comparison is tried again, for example because the service was away."""

log = get_logger("onceward_apps.coursegen")


@app.cron("30 5 * * *", name="coursegen-usage")
async def reconcile_usage(run: Run) -> dict[str, int]:
    """Correct the estimates of past days. A second run changes nothing."""
    today: date = await run.fetchval("select (onceward.now() at time zone 'utc')::date")
    corrected = 0
    for back in range(DAYS):
        day = today - COMPLETE_AFTER - timedelta(days=back)
        by_account: dict[tuple[str, UUID | None], list[Any]] = defaultdict(list)
        for row in await run.fetch(calls.OF_DAY, day):
            provider = row["model"].partition("/")[0]
            if provider in PROVIDERS:
                organization = row["organization_id"]
                is_own = await app.services.has_own_account(provider, organization)
                by_account[provider, organization if is_own else None].append(row)
        for (provider, owner), rows in by_account.items():
            counted = await _counted(provider, owner, day)
            if counted is not None:
                corrected += await _correct(run, day, rows, counted)
    return {"corrected_calls": corrected}


async def _counted(provider: str, owner: UUID | None, day: date) -> Mapping[str, Usage] | None:
    """Return what the service counted for one account on a day. None: it does not say, or not now."""
    try:
        client: Any = await app.services.get(provider, owner)
        read = getattr(client, "usage_of", None)
        return None if read is None else await read(day)
    except (NotSet, ChatError) as error:
        log.warning("coursegen.usage_not_read", provider=provider, error=type(error).__name__)
        return None


async def _correct(run: Run, day: date, rows: Sequence[Any], counted: Mapping[str, Usage]) -> int:
    """Give the unreported calls of each model of one account their part of what the service counted beyond the
    others."""
    done = 0
    by_model: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_model[row["model"]].append(row)
    for name, parts in by_model.items():
        if not any(row["estimated_calls"] for row in parts):
            continue
        theirs = _usage_of(counted, name.partition("/")[2])
        rest_prompt = max(0, theirs.prompt_tokens - sum(row["prompt_tokens"] for row in parts))
        rest_answer = max(0, theirs.completion_tokens - sum(row["completion_tokens"] for row in parts))
        booked = sum(row["estimated_micros"] for row in parts)
        for row in parts:
            async with run.transaction(organization=row["organization_id"]) as tx:
                own = await costs.own_settings(tx)
                cost = plan(own).prices_of(name).cost(rest_prompt, rest_answer)
                # More than was booked: the account is used for other things too. A booking is the most a call can cost.
                share = 1.0 if booked == 0 else min(1.0, cost / booked)
                done += await calls.scale_estimates(tx, day, name, share)
    return done


def _usage_of(counted: Mapping[str, Usage], model: str) -> Usage:
    """Add up what was counted for a model; the service reports it under the names of its versions."""
    own = [usage for name, usage in counted.items() if name == model or name.startswith(f"{model}-2")]
    return Usage(sum(each.prompt_tokens for each in own), sum(each.completion_tokens for each in own))
