"""Call external services: one file per service, one set of outcomes for all of them.

The caller passes in the HTTP client and may set the base URL. Secrets never appear in reprs or reasons. A call sends
once; the caller decides whether and when to send again.
"""

from .outcome import Absent, Accepted, Lookup, Outcome, Refused, Throttled, Unknown, Unreachable

__all__ = ["Absent", "Accepted", "Lookup", "Outcome", "Refused", "Throttled", "Unknown", "Unreachable"]
