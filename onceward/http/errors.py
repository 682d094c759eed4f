"""Errors of HTTP calls. They differ in one question: may the server have received the request?

    HttpError
    ├── UrlRefused          the URL breaks a rule; nothing was sent
    │   └── AddressRefused  the host has a blocked address; nothing was sent
    ├── HostUnreachable         no connection was established; nothing was sent
    └── Ambiguous           a connection was open; the server may have processed the request

Error texts name the host and the cause, never the path, the query or the body, which may contain secrets.
"""

from onceward.errors import OncewardError


class HttpError(OncewardError):
    """A call that got no complete answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UrlRefused(HttpError):
    """The URL breaks a rule; a retry will not help."""


class AddressRefused(UrlRefused):
    """The address is blocked; the host name may resolve to another address later."""


class HostUnreachable(HttpError):
    """The request was not sent: no DNS entry, no route, connection refused, no TLS, or no free connection in time."""


class Ambiguous(HttpError):
    """The request may have been sent: the open connection timed out or broke before an answer."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
