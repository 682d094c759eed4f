"""Pages of other sites may not open a connection in their visitors' name.

A browser sends cookies along with a WebSocket whichever page opens it, and asks nobody first; the `Origin` header is
the only thing that tells. Clients that are not browsers send none, and have no cookies to be misused.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit


def allowed(origin: str | None, host: str | None, *, others: Iterable[str] = ()) -> bool:
    """Whether a page of `origin` may connect to the server it reached as `host`."""
    if origin is None:
        return True
    found = urlsplit(origin)
    if found.scheme not in ("http", "https") or not found.netloc:
        return False  # "null", as sandboxed frames and files send it
    if host is not None and _place(found.scheme, found.netloc) == _place(found.scheme, host):
        return True
    return any(origin.rstrip("/").lower() == other.rstrip("/").lower() for other in others)


def _place(scheme: str, netloc: str) -> str:
    default = ":443" if scheme == "https" else ":80"
    return netloc.lower().removesuffix(default)
