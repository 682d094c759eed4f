"""How each outside service is called: one file a service, one set of outcomes for all of them.

Every service is called through a client that is passed in, at a base URL that can be set, its secrets kept
out of reprs and reasons. A call sends once; whether and when to send again is decided by whoever called.
"""

from .outcome import Absent, Accepted, Lookup, Outcome, Refused, Throttled, Unknown, Unreachable

__all__ = ["Absent", "Accepted", "Lookup", "Outcome", "Refused", "Throttled", "Unknown", "Unreachable"]
