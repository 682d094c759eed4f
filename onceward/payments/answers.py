"""Convert the answers of a service's client to reports, for the integrations that implement `PaymentService`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onceward.services.outcome import Absent, Accepted, Refused, ServiceAnswer

from .service import EventReading, Failure

R = TypeVar("R")
_UNREADABLE = (KeyError, TypeError, ValueError)


def read_answer(read: Callable[[Mapping[str, Any]], R], answer: Accepted) -> R | Refused:
    """Return the report of an answer. An object that cannot be read is a refusal, which an operator sees."""
    try:
        return read(answer.detail)
    except _UNREADABLE as error:
        return Refused(f"{answer.reference} cannot be read: {error!r}", permanent=True)


def read_lookup(
    read: Callable[[Mapping[str, Any]], R], answer: ServiceAnswer, is_missing: Callable[[ServiceAnswer], bool]
) -> R | Absent | Failure:
    """Return the report of an answer, or `Absent` if the service does not have the object."""
    if isinstance(answer, Accepted):
        return read_answer(read, answer)
    return Absent() if is_missing(answer) else answer


def read_list(
    read: Callable[[Mapping[str, Any]], R],
    answer: ServiceAnswer,
    name: str,
    is_missing: Callable[[ServiceAnswer], bool],
) -> tuple[R, ...] | Absent | Failure:
    """Return the reports of the objects in `detail[name]`, in the same order."""
    if not isinstance(answer, Accepted):
        return Absent() if is_missing(answer) else answer
    try:
        return tuple(read(each) for each in answer.detail.get(name) or ())
    except _UNREADABLE as error:
        return Refused(f"{name} of {answer.reference} cannot be read: {error!r}", permanent=True)


def read_events(
    read: Callable[[str, Mapping[str, Any]], EventReading], events: Sequence[Mapping[str, Any]], type_field: str
) -> tuple[EventReading, ...] | Refused:
    """Return the readings of listed events that have facts."""
    readings: list[EventReading] = []
    for event in events:
        try:
            reading = read(str(event.get(type_field)), event)
        except ValueError as error:
            return Refused(f"event {event.get('id')}: {error}", permanent=True)
        if reading.facts:
            readings.append(reading)
    return tuple(readings)
