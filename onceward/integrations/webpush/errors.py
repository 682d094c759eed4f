"""What the answers of push services mean.

Sources: RFC 8030 and RFC 8292, and the documentation of Apple, Google and Mozilla.
"""

from onceward.services.error_table import ErrorTable

_VAPID = "Check ONCEWARD_WEBPUSH_PRIVATE_KEY and ONCEWARD_WEBPUSH_SUBJECT, and the clock of this machine."

ERRORS = ErrorTable(
    account={401: _VAPID, "BadJwtToken": _VAPID, "ExpiredJwtToken": _VAPID},
    # 403: the subscription belongs to another key. 400 with this word is Apple's form of the same.
    recipient=frozenset({403, 404, 410, "VapidPkHashMismatch"}),
    message=frozenset({413}),
    # Some services send 406 instead of 429.
    throttled={406: None, 429: None},
)
