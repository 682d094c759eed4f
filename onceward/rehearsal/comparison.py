"""Compare what two runs of a handler cause. What must differ between runs is not a difference.

Not compared: ids that a run has generated, times that are equally far from the start of their runs (to the minute),
and signed times inside a text, such as the end of a link. What varies by chance, such as a token, is found by a second
rehearsal of the same code (`chance.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from onceward.outside import OutsideCall
from onceward.rehearsal.effects import (
    AuditEffect,
    BroadcastEffect,
    CapacityEffect,
    JobEffect,
    JournalEffect,
    LimitEffect,
    MessageEffect,
    PublishedEffect,
    Rehearsal,
    RowChange,
    plain,
)
from onceward.rehearsal.mask import shown

SAME_TIME_S = 60.0
UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?")
NUMBER = re.compile(r"\d+")
SIGNED_TEXT = re.compile(r"(?<![\w-])\d{10}\.[\w-]{20,}|(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]+")
"""A time in seconds with its signature, at the end of a signed link, or a JWT. It changes with each second."""
SMALLEST_ID = 1000
"""A smaller number inside a text is not taken for a generated id."""
KINDS: tuple[tuple[type, str], ...] = (
    (RowChange, "row"),
    (JobEffect, "job"),
    (MessageEffect, "message"),
    (PublishedEffect, "webhook"),
    (BroadcastEffect, "broadcast"),
    (JournalEffect, "journal"),
    (AuditEffect, "audit"),
    (CapacityEffect, "capacity"),
    (LimitEffect, "limit"),
    (OutsideCall, "outside"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """What one run caused, when it ran, and which ids it generated."""

    effects: Sequence[Any]
    at: datetime
    generated: frozenset[str] = frozenset()
    failure: str | None = None
    result: Any = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. Equal differences of several events are one group: `what` contains no value of an event."""

    what: str
    detail: str = ""
    path: str | None = None


def side_of(rehearsal: Rehearsal) -> Side:
    """Return one side of a comparison. Effects that exist already count like new ones."""
    failure = None
    if rehearsal.state == "failed" and rehearsal.failure is not None:
        at = f" at {rehearsal.failure.at}" if rehearsal.failure.at else ""
        failure = f"{rehearsal.failure.type}{at}"
    effects = [
        replace(each, existing=False) if getattr(each, "existing", False) else each for each in rehearsal.effects.all()
    ]
    return Side(effects, rehearsal.at, rehearsal.generated, failure, rehearsal.result)


def differences(one: Side, other: Side) -> list[Difference]:
    """Return how `other` differs from `one`."""
    if one.failure != other.failure:
        if other.failure is not None:
            return [Difference(f"fails: {other.failure}")]
        return [Difference(f"no longer fails: {one.failure}")]
    pair = _Pair(one, other)
    found: list[Difference] = []
    names = dict.fromkeys([*map(identity, one.effects), *map(identity, other.effects)])
    for name in names:
        before = [plain(_caused(each)) for each in one.effects if identity(each) == name]
        after = [plain(_caused(each)) for each in other.effects if identity(each) == name]
        found += pair.of_group(name, before, after)
    found += [replace(each, what=f"result: {each.what}") for each in pair.of_values("", one.result, other.result)]
    return found


def _caused(effect: Any) -> Any:
    """Return an effect without the values that an update replaces: those are data of the moment."""
    return replace(effect, before={}) if isinstance(effect, RowChange) and effect.verb == "update" else effect


def identity(effect: Any) -> str:
    """Return the name of an effect without the values of its event: `message receipt by email`."""
    kind = next(name for type, name in KINDS if isinstance(effect, type))
    match effect:
        case RowChange():
            return f"{effect.verb} in {effect.table}"
        case JobEffect():
            return f"{kind} {effect.task}"
        case MessageEffect():
            return f"{kind} {effect.template} by {effect.channel}"
        case PublishedEffect():
            return f"{kind} {effect.type}"
        case BroadcastEffect():
            return f"{kind} {effect.topic.partition('/')[0]}"
        case JournalEffect():
            return f"{kind} {effect.kind}"
        case AuditEffect():
            return f"{kind} {effect.action}"
        case CapacityEffect():
            return f"{kind} {effect.state}"
        case LimitEffect():
            return f"{kind} {effect.key.partition(':')[0]}"
        case OutsideCall():
            return f"{kind} {effect.verb} {'/'.join(effect.target.split('/')[:3])}"
        case _:
            raise TypeError(f"{effect!r} is not an effect")


class _Pair:
    """Two runs of one piece of work."""

    def __init__(self, one: Side, other: Side) -> None:
        self._sides = (one, other)

    def of_group(self, name: str, before: list[Any], after: list[Any]) -> list[Difference]:
        """Return the differences between effects with one name: changed, missing and additional ones."""
        rest = list(after)
        missing: list[Any] = []
        for each in before:
            equal = next((place for place, one in enumerate(rest) if not self.of_values("", each, one)), None)
            if equal is None:
                missing.append(each)
            else:
                del rest[equal]
        found: list[Difference] = []
        while missing and rest:
            each = missing.pop(0)
            nearest = min(range(len(rest)), key=lambda place: len(self.of_values("", each, rest[place])))
            for one in self.of_values("", each, rest.pop(nearest)):
                found.append(Difference(f"{name}: {one.what}", one.detail, f"{name}: {one.path}"))
        found += [Difference(f"{name}: missing", shown("effect", each), f"{name}: missing") for each in missing]
        found += [Difference(f"{name}: one more", shown("effect", each), f"{name}: one more") for each in rest]
        return found

    def of_values(self, path: str, one: Any, other: Any) -> list[Difference]:
        """Return the paths at which two values differ."""
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            a, b = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
            found: list[Difference] = []
            for name in dict.fromkeys([*a, *b]):
                found += self.of_values(f"{path}.{name}" if path else name, a.get(name), b.get(name))
            return found
        if isinstance(one, list) and isinstance(other, list):
            a, b = cast("list[Any]", one), cast("list[Any]", other)
            if len(a) != len(b):
                return [_changed(path, f"{len(a)} items", f"{len(b)} items")]
            return [each for x, y in zip(a, b, strict=True) for each in self.of_values(f"{path}[]", x, y)]
        if one == other or self._is_same(path, one, other):
            return []
        return [_changed(path, one, other)]

    def _is_same(self, path: str, one: Any, other: Any) -> bool:
        first, second = self._sides
        if isinstance(one, str) and isinstance(other, str):
            return self._same_time(one, other) or _without(one, first.generated) == _without(other, second.generated)
        if isinstance(one, int) and isinstance(other, int) and path.rpartition(".")[2].lower().endswith(("id", "id[]")):
            return str(one) in first.generated and str(other) in second.generated
        return False

    def _same_time(self, one: str, other: str) -> bool:
        a, b = _time(one), _time(other)
        if a is None or b is None:
            return False
        first, second = self._sides
        apart = abs((a - b).total_seconds())
        return min(apart, abs(((a - first.at) - (b - second.at)).total_seconds())) <= SAME_TIME_S


def _changed(path: str, one: Any, other: Any) -> Difference:
    name = path.rpartition(".")[2]
    return Difference(f"{path or 'value'} differs", f"{shown(name, one)} -> {shown(name, other)}", path)


def _time(text: str) -> datetime | None:
    if not TIME_TEXT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _without(text: str, generated: frozenset[str]) -> str:
    """Return a text without the ids that its run has generated, and without signed times."""

    def replaced(match: re.Match[str]) -> str:
        value = match[0]
        return "<id>" if value.lower() in generated and (not value.isdigit() or int(value) >= SMALLEST_ID) else value

    return NUMBER.sub(replaced, UUID_TEXT.sub(replaced, SIGNED_TEXT.sub("<signed>", text)))
