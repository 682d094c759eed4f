"""The errors of live. Clients get the `code` of an error.

LiveError
├── UnknownQuery    no query has this name
├── UnknownTopic    no declared topic matches this name
├── BadArguments    the arguments do not match the parameters of the query
├── Refused         the caller may not see this
├── TooMuch         a limit of the node, the organization or the connection is reached
├── BadMessage      the message does not follow the protocol
└── QueryFault      the query has a bug that its author must fix
    ├── NotWatched  it reads a table that it does not watch, or watches a table that is not in the feed
    └── NotVisible  it uses `user_id` without `per="user"`, or without a logged-in user
"""

from __future__ import annotations

from onceward.errors import OncewardError


class LiveError(OncewardError):
    """The root of all errors of this package."""

    code = "error"


class UnknownQuery(LiveError):
    code = "unknown_query"


class UnknownTopic(LiveError):
    code = "unknown_topic"


class BadArguments(LiveError):
    code = "bad_arguments"


class SubscriptionRefused(LiveError):
    code = "refused"


class TooMuch(LiveError):
    code = "too_much"


class BadMessage(LiveError):
    code = "bad_message"


class QueryFault(LiveError):
    """The message is for the author: the log and members of the organization get it, end users get only the code."""

    code = "query_fault"


class NotWatched(QueryFault):
    code = "not_watched"


class NotVisible(QueryFault):
    code = "not_visible"
