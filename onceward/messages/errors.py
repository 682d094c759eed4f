"""How a message can fail, by name.

Permanent
├── Rejected           the service refused it for good
├── NotConfigured      this installation has no such channel
└── PayloadInvalid
    ├── UnknownTemplate    no template of this name, version or language
    └── MissingVariable    the template needs a value that the message does not carry
Retry
└── Declined           the service answered no for now: counted as a try
Snooze
├── Parked             the service could not be reached or asked for a pause: this send did not happen, nothing is counted
├── Resting            the channel is parked: nothing was tried, nothing is counted
├── NotYet             quiet hours, a window, a limit: nothing failed, it is too early
└── LookLater          it may have been sent: look at the service before anything else

`onceward.settled_message` knows Declined, Rejected and Parked by name: after these nothing of this send is under way.
An earlier send that was never answered stays unresolved.
"""

from __future__ import annotations

from onceward.work import PayloadInvalid, Permanent, Retry, Snooze


class Rejected(Permanent):
    """The service refused it for good; trying again cannot help."""


class NotConfigured(Permanent):
    """The message names the setting that is missing."""


class UnknownTemplate(PayloadInvalid):
    """The message names the template and those that there are."""


class MissingVariable(PayloadInvalid):
    """The message names the template, its language and the variable."""


class Declined(Retry):
    """An answer of the service that may change."""


class Parked(Snooze):
    """A send met a service that is away or asks for a pause; the channel rests for a while."""


class Resting(Snooze):
    """The channel is parked, and this message did not try."""


class NotYet(Snooze):
    """Too early."""


class LookLater(Snooze):
    """A send whose outcome is not known is looked up after a while."""
