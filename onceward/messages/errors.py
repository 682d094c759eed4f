"""The ways in which a message can fail.

Permanent
├── MessageRejected           the service refused the message for good
├── NotConfigured      this installation has no such channel
└── PayloadInvalid
    ├── UnknownTemplate    no template has this name, version or language
    └── MissingVariable    the template needs a value that is missing in the message's data
Retry
└── Declined           the service refused for now: counts as an attempt
Snooze
├── WaitsForRepair     may wait until a refused account or template is repaired
│   ├── MessageParked      the service was unreachable or asked for a pause: not sent, no attempt is counted
│   ├── Resting            the channel is parked: not sent, no attempt is counted
│   └── LookLater          the message may have been sent: look it up at the service first
└── NotYet             quiet hours, a window or a limit: nothing failed, it is too early

The SQL function `onceward.settled_message` knows Declined, MessageRejected and MessageParked by name: they prove that
this send is over. An earlier send that was never answered stays unresolved.
"""

from __future__ import annotations

from onceward.durations import Duration
from onceward.work import PayloadInvalid, Permanent, Retry, Snooze


class MessageRejected(Permanent):
    """The service refused the message for good; a retry cannot help."""


class NotConfigured(Permanent):
    """The channel of the message has no account in the settings."""


class UnknownTemplate(PayloadInvalid):
    """The error text names the template and the known ones."""


class MissingVariable(PayloadInvalid):
    """The error text names the template, its language and the variable."""


class Declined(Retry):
    """The service refused the message; a later attempt may succeed."""


class WaitsForRepair(Snooze):
    """`trouble` is the refused account or template that the message waits for; its repair ends the wait."""

    def __init__(self, after: Duration, reason: str = "", *, trouble: int | None = None) -> None:
        super().__init__(after, reason)
        self.trouble = trouble
        self.details = None if trouble is None else {"trouble": trouble}


class MessageParked(WaitsForRepair):
    """The service was unreachable or asked for a pause, or refuses the account; the channel is paused for a while."""


class Resting(WaitsForRepair):
    """The channel is parked, and this message was not sent."""


class NotYet(Snooze):
    """It is too early to send the message."""


class LookLater(WaitsForRepair):
    """The outcome of a send is unknown; the sender looks it up after a while."""
