"""Apply the webhooks of payment services, each in one commit with its outcome."""

from __future__ import annotations

from typing import Any

from onceward.inbox.event import StoredEvent
from onceward.work.outcomes import PayloadInvalid

from . import reports
from .declarations import service_class
from .page_reports import Decided
from .reports import Origin


async def apply_event(event: StoredEvent, tx: Any) -> Any:
    """Read an event into facts, and apply them. An event of other software on the same account is `foreign`.

    The result is that of the app, if it decided about money and gave one.
    """
    try:
        reading = service_class(event.provider).read_event(event.type, event.payload)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        name = type(error).__name__  # its text may contain what the sender wrote
        raise PayloadInvalid(f"{event.provider} sent {event.type} in a form that cannot be read: {name}") from error
    results = await reports.apply_facts(tx, Origin(event.source, reading.account, event.event_id), reading.facts)
    given = (each.result for each in results if isinstance(each, Decided) and each.result is not None)
    return next(given, {"payments": [str(each) for each in results]})
