"""The lines that describe a rehearsal to a person: the same for the terminal, the dashboard and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from onceward.outside import OutsideCall
from onceward.rehearsal.effects import (
    AuditEffect,
    BroadcastEffect,
    CapacityEffect,
    Effects,
    JobEffect,
    JournalEffect,
    LimitEffect,
    MessageEffect,
    PublishedEffect,
    Rehearsal,
    RowChange,
)
from onceward.rehearsal.mask import shown

Effect = (
    RowChange
    | JobEffect
    | MessageEffect
    | PublishedEffect
    | BroadcastEffect
    | JournalEffect
    | AuditEffect
    | CapacityEffect
    | LimitEffect
    | OutsideCall
)

VERBS = {"insert": "would be inserted", "update": "would be updated", "delete": "would be deleted"}


@dataclass(frozen=True, slots=True)
class Line:
    """One effect: what it is, a short text, and details of which each is a line of its own."""

    kind: str
    text: str
    details: tuple[str, ...] = ()
    note: str | None = None


def headline(one: Rehearsal) -> str:
    """Return the verdict of a rehearsal in a few words."""
    if one.already_done is not None:
        return f"already done: {one.already_done}"
    match one.state:
        case "caused" if one.withheld:
            many = f"{one.withheld} not shown, because it acts for several organizations"
            return f"would cause {count([*one.effects.new(), *range(one.withheld)])}, {many}"
        case "caused":
            return f"would cause {count(one.effects.new())}"
        case "nothing":
            return "would cause nothing"
        case "outside":
            call = one.effects.outside[-1]
            return f"would call {call.verb} {call.target}; what follows depends on the answer"
        case "put_off":
            return f"would be put off: {one.failure.message if one.failure else ''}"
        case "failed":
            return f"would fail: {one.failure}"
        case _:
            assert_never(one.state)


def count(effects: Iterable[Any]) -> str:
    """Return how many effects there are: `1 effect`, `12 effects`."""
    number = len(list(effects))
    return f"{number} effect" if number == 1 else f"{number} effects"


def cost(one: Rehearsal) -> str:
    """Return how long the handler ran and how much it asked of the database."""
    locked = f", {one.locked_rows} rows only locked" if one.locked_rows else ""
    locks = f", locks {', '.join(one.locks)}" if one.locks else ""
    return f"{one.duration_ms:.1f} ms, {one.statements} statements{locked}{locks}"


def lines(effects: Effects) -> Iterator[Line]:
    """Yield a line for each effect, in the order of their kinds."""
    for effect in effects.all():
        yield line(effect)
    for table, number in effects.unseen.items():
        yield Line("rows", f"{number} more in {table}", note="the table is too large to look for them")


def line(effect: Effect) -> Line:
    """Return the line of one effect."""
    note = "exists already" if getattr(effect, "existing", False) else None
    match effect:
        case RowChange():
            return _row(effect)
        case JobEffect():
            wait = f" in {_period(effect.delay_s)}" if effect.delay_s else ""
            key = f", unique {effect.unique_key}" if effect.unique_key else ""
            return Line("job", f"{effect.task}({_values(effect.arguments)}){wait}{key}", note=note)
        case MessageEffect():
            text = (effect.subject, *effect.text.splitlines()) if effect.subject or effect.text else ()
            return Line(
                "message",
                f"{effect.template} by {effect.channel} to {effect.recipient}, key {effect.key}",
                tuple(part for part in text if part.strip()),
                note,
            )
        case PublishedEffect():
            to = f"to {effect.endpoints} endpoint{'' if effect.endpoints == 1 else 's'}"
            return Line("webhook", f"{effect.type} {to}", (shown("data", effect.data),), note)
        case BroadcastEffect():
            return Line("broadcast", f"{effect.topic} {shown('payload', effect.payload)}")
        case JournalEffect():
            entries = tuple(f"{each.debit} -> {each.credit} {each.amount} {each.currency}" for each in effect.entries)
            return Line("journal", f"{effect.kind} {effect.key}", entries, note)
        case AuditEffect():
            changes = (shown("changes", effect.changes),) if effect.changes else ()
            return Line("audit", f"{effect.action} of {effect.entity_type} {effect.entity_id}", changes)
        case CapacityEffect():
            unit = f" unit {effect.unit}" if effect.unit else ""
            was = f"{effect.was} -> " if effect.was else ""
            return Line("capacity", f"{effect.pool}: {was}{effect.state} {effect.quantity}{unit}")
        case LimitEffect():
            return Line("limit", f"{effect.key}: {effect.slots} slot{'' if effect.slots == 1 else 's'} held")
        case OutsideCall():
            key = f", key {effect.key}" if effect.key else ""
            return Line("outside", f"would call {effect.verb} {effect.target}{key}", note="not called")
        case _:
            assert_never(effect)


def _row(change: RowChange) -> Line:
    key = ", ".join(f"{name} {shown(name, value)}" for name, value in change.key.items())
    where = f"{change.table} {key}".rstrip()
    match change.verb:
        case "insert":
            details = (_values({n: v for n, v in change.after.items() if n not in change.key}),)
        case "delete":
            details = (_values({n: v for n, v in change.before.items() if n not in change.key}),)
        case "update":
            details = tuple(
                f"{name}: {shown(name, change.before.get(name))} -> {shown(name, value)}"
                for name, value in change.after.items()
            )
    return Line(change.verb, where, tuple(each for each in details if each))


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(name, value)}" for name, value in values.items())


def _period(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds} s"
