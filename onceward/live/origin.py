"""Check the origin of a connection, so that other sites cannot connect in the name of their visitors.

A browser sends cookies with every WebSocket, whichever page opens it, and makes no CORS preflight; only the `Origin`
header shows the page. Clients that are not browsers send no `Origin`, and have no cookies to misuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit


def allowed(origin: str | None, host: str | None, *, others: Iterable[str] = ()) -> bool:
    """Return whether a page of `origin` may connect to the server at `host`."""
    if origin is None:
        return True
    parsed = urlsplit(origin)
    if parsed.scheme not in ("http", "https") or not parsed.netloc:
        return False  # "null", which sandboxed frames and files send
    if host is not None and _without_default_port(parsed.scheme, parsed.netloc) == _without_default_port(
        parsed.scheme, host
    ):
        return True
    return any(origin.rstrip("/").lower() == other.rstrip("/").lower() for other in others)


def _without_default_port(scheme: str, netloc: str) -> str:
    default = ":443" if scheme == "https" else ":80"
    return netloc.lower().removesuffix(default)
