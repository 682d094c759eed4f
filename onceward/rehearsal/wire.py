"""Rehearsals as lines of JSON, for the pipe between two versions of the code."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from onceward import exact_json
from onceward.outside import OutsideCall
from onceward.rehearsal.effects import (
    AuditEffect,
    BroadcastEffect,
    CapacityEffect,
    Effects,
    EntryEffect,
    Failure,
    JobEffect,
    JournalEffect,
    LimitEffect,
    MessageEffect,
    PublishedEffect,
    Rehearsal,
    RowChange,
    plain,
)

EFFECTS: dict[str, type] = {
    "rows": RowChange,
    "jobs": JobEffect,
    "messages": MessageEffect,
    "published": PublishedEffect,
    "broadcasts": BroadcastEffect,
    "journals": JournalEffect,
    "audit": AuditEffect,
    "capacity": CapacityEffect,
    "limits": LimitEffect,
    "outside": OutsideCall,
}


def dump(rehearsal: Rehearsal) -> str:
    """Return a rehearsal as one line."""
    return exact_json.dumps(plain(rehearsal), default=str)


def load(line: str) -> Rehearsal:
    """Return the rehearsal of a line. Fields that another version does not write have their defaults."""
    given = exact_json.loads(line)
    effects = given.get("effects", {})
    given["effects"] = Effects(
        **{name: tuple(_made(kind, each) for each in effects.get(name, ())) for name, kind in EFFECTS.items()},
        unseen=effects.get("unseen", {}),
    )
    given["failure"] = _made(Failure, given["failure"]) if given.get("failure") else None
    given["generated"] = frozenset(given.get("generated", ()))
    given["locks"] = tuple(given.get("locks", ()))
    given["at"] = datetime.fromisoformat(given["at"])
    return _made(Rehearsal, given)


def _made(kind: type, given: dict[str, Any]) -> Any:
    """Make a dataclass from a mapping from which empty fields were left out."""
    values: dict[str, Any] = {}
    for each in fields(kind):
        if each.name in given:
            values[each.name] = given[each.name]
        elif each.default is MISSING and each.default_factory is MISSING:
            values[each.name] = EMPTY.get((kind, each.name))
    if kind is JournalEffect:
        values["entries"] = tuple(_made(EntryEffect, each) for each in values.get("entries", ()))
    return kind(**values)


EMPTY: dict[tuple[type, str], Any] = {
    (RowChange, "key"): {},
    (JobEffect, "arguments"): {},
    (EntryEffect, "amount"): 0,
    (PublishedEffect, "endpoints"): 0,
    (Failure, "message"): "",
    (MessageEffect, "key"): "",
    (Rehearsal, "label"): "",
    (Rehearsal, "effects"): Effects(),
}
"""Required fields whose empty value is not None."""
