"""The cookie of a secret: its name over https, and the only requests over plain http that may carry one.

Over https the name starts with `__Host-`, which a browser accepts only with `Secure`, for the whole site and without a
domain. So another host of the same domain, or anybody on a plain connection, can neither read the cookie nor replace
it. Plain http is possible on the loopback interface only, where the name has no prefix because some browsers refuse
`Secure` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

SESSION = "onceward_session"
"""The cookie of a dashboard session, without its prefix."""

FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
"""Headers of a request that a proxy has passed on. Its client may be on another machine, whatever `Host` says."""


def cookie_name(name: str, *, secure: bool) -> str:
    """Return the name that the browser stores."""
    return f"__Host-{name}" if secure else name


def secret_cookie(cookies: Mapping[str, str], headers: Mapping[str, str], name: str) -> str | None:
    """Return the value of a secret cookie. Without its prefix it counts on the loopback interface only."""
    value = cookies.get(cookie_name(name, secure=True))
    if value is None and is_loopback(headers):
        value = cookies.get(name)
    return value


def is_loopback(headers: Mapping[str, str]) -> bool:
    """Return whether the browser runs on this machine: it asked for a loopback host, and no proxy passed the request
    on."""
    if any(name in headers for name in FORWARDING):
        return False
    host = headers.get("host", "").strip().lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
