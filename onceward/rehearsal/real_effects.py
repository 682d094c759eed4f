"""What finished work has really caused, as one side of a comparison: the tree of consequences has its causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceward import exact_json
from onceward.db import Connection
from onceward.rehearsal.causes import data_of
from onceward.rehearsal.comparison import Difference, Side, differences, side_of
from onceward.rehearsal.effects import (
    UNHANDLED,
    AuditEffect,
    EntryEffect,
    JobEffect,
    JournalEffect,
    MessageEffect,
    PublishedEffect,
    Rehearsal,
    stored,
)
from onceward.rehearsal.mask import masked
from onceward.statements import read_statement

CAUSED = read_statement("rehearsal", "really_caused")
RAN = read_statement("rehearsal", "successful_attempts")
COMPARED = (JobEffect, MessageEffect, PublishedEffect, JournalEffect, AuditEffect)
"""Effects that name their cause. Changed rows do not: nobody has recorded what they were before."""


@dataclass(frozen=True, slots=True)
class RealRun:
    """What one piece of work has really caused, and what it returned."""

    side: Side
    ids: frozenset[str]


async def real_runs(conn: Connection, ids: Sequence[int]) -> dict[int, RealRun]:
    """Return what each piece of work that has succeeded caused."""
    effects: dict[int, list[Any]] = {}
    generated: dict[int, set[str]] = {}
    for row in await conn.fetch(CAUSED, list(ids)):
        effects.setdefault(row["cause"], []).append(_effect(row["kind"], row["effect"]))
        generated.setdefault(row["cause"], set()).add(str(row["id"]))
    runs: dict[int, RealRun] = {}
    for row in await conn.fetch(RAN, list(ids)):
        at: datetime = row["at"]
        own = frozenset(generated.get(row["id"], ()))
        runs[row["id"]] = RealRun(Side(effects.get(row["id"], []), at, own, None, row["result"]), own)
    return runs


def _effect(kind: str, value: Mapping[str, Any]) -> Any:
    match kind:
        case "jobs":
            return JobEffect(value["task"], value["arguments"])
        case "messages":
            return MessageEffect(value["template"], value["channel"], masked(value["recipient"]), value["key"])
        case "published":
            body = None if value["body"] is None else exact_json.loads(value["body"])
            return PublishedEffect(value["type"], data_of(body), value["key"], 0)
        case "journals":
            entries = tuple(EntryEffect(**each) for each in value["entries"] or ())
            return JournalEffect(value["key"], value["kind"], entries, value["memo"])
        case _:
            return AuditEffect(**value)


def compared_with_real(rehearsal: Rehearsal, real: RealRun) -> list[Difference]:
    """Return how the rehearsal differs from what really happened, in the effects that both sides know."""
    side = side_of(rehearsal)
    effects = [_comparable(each) for each in side.effects if isinstance(each, COMPARED)]
    return differences(real.side, Side(effects, side.at, side.generated | real.ids, side.failure, stored(side.result)))


def is_done(rehearsal: Rehearsal, real: RealRun) -> bool:
    """Return whether the handler found nothing left to do: it has caused something once, and causes nothing again."""
    found_nothing = rehearsal.state == "nothing" and rehearsal.result != UNHANDLED
    return bool(real.side.effects) and found_nothing and not rehearsal.effects.all()


def _comparable(effect: Any) -> Any:
    """Return an effect without the parts that the database does not keep."""
    match effect:
        case JobEffect():
            return JobEffect(effect.task, effect.arguments)
        case MessageEffect():
            return MessageEffect(effect.template, effect.channel, effect.recipient, effect.key)
        case PublishedEffect():
            return PublishedEffect(effect.type, effect.data, effect.key, 0)
        case _:
            return effect
