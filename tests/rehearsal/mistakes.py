"""Mistakes that a programmer makes in a handler, planted into handlers that have none."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from onceward.messages import Queued
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.transactions import RehearsalTx

Run = Callable[[Any, Any], Awaitable[Any]]
AMOUNT = re.compile(r"amount|cents|total|price|micros|paid|count|number|percent|rating", re.IGNORECASE)

AMOUNT_DIFFERS = re.compile(rf"({AMOUNT.pattern})\w*(\[\])? differs$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: how it is planted, on which work it shows, and how the rehearsal names it."""

    name: str
    plant: Callable[[Run], Run]
    fits: Callable[[Rehearsal], bool]
    shows: re.Pattern[str]
    apps: frozenset[str]
    """Apps that must have work on which it shows."""


def _failing(_run: Run) -> Run:
    async def run(*_: Any) -> Any:
        raise KeyError("planted")

    return run


def _one_more_row(run: Run) -> Run:
    async def more(work: Any, tx: Any) -> Any:
        if tx is None:
            async with work.open_tx(work.db._conn, work) as opened:
                await opened.audit("planted.row", entity_type="planted", entity_id=1)
        else:
            await tx.audit("planted.row", entity_type="planted", entity_id=1)
        return await run(work, tx)

    return more


def _without_mail(run: Run) -> Run:
    async def forgets(_tx: Any, _template: str, sendings: Any, /, **_: Any) -> list[Queued]:
        return [Queued(0) for _ in sendings]

    async def less(work: Any, tx: Any) -> Any:
        with patch.object(RehearsalTx, "send_many", forgets):
            return await run(work, tx)

    return less


def _off_by_one(run: Run) -> Run:
    publish, post, audit = RehearsalTx.publish, RehearsalTx.post, RehearsalTx.audit

    async def published(tx: Any, type: str, data: Any, **options: Any) -> Any:
        return await publish(tx, type, _raised(data), **options)

    async def posted(tx: Any, entries: Any, /, **options: Any) -> Any:
        return await post(tx, [replace(each, amount=each.amount + 1) for each in entries], **options)

    async def audited(tx: Any, *given: Any, changes: Any = None, **options: Any) -> Any:
        return await audit(tx, *given, changes=_raised(changes), **options)

    async def wrong(work: Any, tx: Any) -> Any:
        with (
            patch.object(RehearsalTx, "publish", published),
            patch.object(RehearsalTx, "post", posted),
            patch.object(RehearsalTx, "audit", audited),
        ):
            return await run(work, tx)

    return wrong


def _raised(value: Any) -> Any:
    """Return the value with each amount in it one higher."""
    if isinstance(value, Mapping):
        return {
            name: each + 1
            if isinstance(each, int) and not isinstance(each, bool) and AMOUNT.search(name)
            else _raised(each)
            for name, each in value.items()
        }
    return [_raised(each) for each in value] if isinstance(value, list) else value


def _has_amounts(one: Rehearsal) -> bool:
    values = [each.data for each in one.effects.published] + [each.changes for each in one.effects.audit]
    return any(not each.existing for each in one.effects.journals) or any(_raised(each) != each for each in values)


def _runs(one: Rehearsal) -> bool:
    return one.state in ("caused", "nothing", "outside", "put_off")


EVERY = frozenset(["ticketing", "learning", "clinic", "engagement", "coursegen"])
PAID = frozenset(["ticketing", "learning", "clinic"])
MISTAKES = (
    Mistake("an exception", _failing, _runs, re.compile("fails: KeyError"), EVERY),
    Mistake("an extra row", _one_more_row, _runs, re.compile(r"audit planted\.row: one more"), EVERY),
    Mistake(
        "a message that is not sent",
        _without_mail,
        lambda one: any(not each.existing for each in one.effects.messages),
        re.compile("message .*: missing"),
        PAID,
    ),
    Mistake("an amount off by one", _off_by_one, _has_amounts, AMOUNT_DIFFERS, frozenset(["ticketing", "learning"])),
)
