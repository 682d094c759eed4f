"""Compare the values of a form: what somebody else changed meanwhile, and what the audit log says about a change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pydantic import BaseModel

from onceward.desk.fields import Entry, entries, fill
from onceward.money import format_amount

LONGEST_RECORDED = 120


def version(model: BaseModel) -> str:
    """Return a short hash of the values that a form was filled with, to find out whether somebody else changed them."""
    return hashlib.sha256(model.model_dump_json().encode()).hexdigest()[:16]


def differences(form: Sequence[Entry], before: BaseModel, now: BaseModel) -> list[tuple[str, str, str]]:
    """Return what somebody else has changed: the title of the field, the value before and the value now."""
    changed: list[tuple[str, str, str]] = []
    for entry in form:
        old, new = getattr(before, entry.name), getattr(now, entry.name)
        if old != new:
            if isinstance(old, datetime) and isinstance(new, datetime):
                new = new.astimezone(old.tzinfo)  # people compare the two times, so both are shown in one zone
            changed.append((entry.title, _text(entry, old), _text(entry, new)))
    return changed


def _text(entry: Entry, value: Any) -> str:
    filled = fill(entry, value)
    shown = " ".join((filled.value, *(text for name, text in filled.values.items() if name != "exact"))).strip()
    return dict(entry.options).get(shown, shown) or "nothing"


def described(model: type[BaseModel], changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an audit entry says about an action with this model, as people read it."""
    lines: list[str] = []
    for entry in entries(model):
        if entry.choices:  # the id of a row tells people nothing
            continue
        value = changes.get(entry.name)
        if isinstance(value, Mapping) and set(cast(Mapping[str, Any], value)) == {"before", "after"}:
            change = cast(Mapping[str, Any], value)
            lines.append(f"{entry.title}: {_recorded(entry, change['before'])} → {_recorded(entry, change['after'])}")
        elif value not in (None, "", False, [], {}):
            lines.append(f"{entry.title}: {_recorded(entry, value)}")
    return tuple(lines)


def _recorded(entry: Entry, value: Any) -> str:
    """Return a value of the audit log, which is JSON, as people read it."""
    if value in (None, "", [], {}):
        return "nothing"
    if entry.input == "yes":
        return "yes" if value else "no"
    if entry.input == "money":
        return format_amount(value["amount"], value["currency"], "en")
    if isinstance(value, list):
        return ", ".join(str(each) for each in cast(list[Any], value))
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {each}" for key, each in cast(Mapping[str, Any], value).items())
    text = dict(entry.options).get(str(value), str(value))
    return text if len(text) <= LONGEST_RECORDED else text[:LONGEST_RECORDED] + "…"
