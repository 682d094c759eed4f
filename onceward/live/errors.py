"""What live refuses, by name. The code is what a client is told.

LiveError
├── UnknownQuery    no query of that name
├── UnknownTopic    no declared topic fits that name
├── BadArguments    arguments that do not fit the query's parameters
├── Refused         somebody we know, who may not see this
├── TooMuch         a limit of the connection or of the organization is reached
├── BadMessage      not a message of our protocol
└── QueryFault      the query is written wrongly: its author must act
    ├── NotWatched  it reads a table that it does not watch, or watches one that is not in the feed
    └── NotVisible  it asks who is looking, and was not declared so
"""

from __future__ import annotations


class LiveError(Exception):
    """Anything this package raises by itself."""

    code = "error"


class UnknownQuery(LiveError):
    code = "unknown_query"


class UnknownTopic(LiveError):
    code = "unknown_topic"


class BadArguments(LiveError):
    code = "bad_arguments"


class Refused(LiveError):
    code = "refused"


class TooMuch(LiveError):
    code = "too_much"


class BadMessage(LiveError):
    code = "bad_message"


class QueryFault(LiveError):
    """The text is for the author and goes to the log and to operators; end users are told no more than the code."""

    code = "query_fault"


class NotWatched(QueryFault):
    code = "not_watched"


class NotVisible(QueryFault):
    code = "not_visible"
