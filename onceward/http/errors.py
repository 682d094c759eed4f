"""What can go wrong with a call to the outside, told apart by one question: may bytes have left us?

    HttpError
    ├── UrlRefused          the URL is not one we call; nothing was sent
    │   └── AddressRefused  its name leads to an address we do not dial; nothing was sent
    ├── Unreachable         no connection came about; nothing was sent
    └── Ambiguous           a connection was open; the other side may have acted

Messages name the host and the cause, never the path, the query or the body: those may hold secrets.
"""


class HttpError(Exception):
    """A call that did not end in a complete answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UrlRefused(HttpError):
    """The URL breaks a rule; calling it again will not help."""


class AddressRefused(UrlRefused):
    """The address is on our block list; a name that led to it may lead elsewhere later."""


class Unreachable(HttpError):
    """Definitely not sent: no name, no route, refused, no TLS, or no free connection in time."""


class Ambiguous(HttpError):
    """Possibly sent, outcome not known: the time ran out or the connection broke after it was open."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
