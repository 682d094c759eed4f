"""Cookies that contain a secret: a session, the token of a portal.

They are never set over plain http, except on loopback.
"""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection
from starlette.responses import Response

from onceward.settings import Settings
from onceward.trust import session_cookie
from onceward.trust.errors import NotAllowed


def is_secure(connection: HTTPConnection) -> bool:
    """Return whether the browser uses https: the request says so, or the public URL does."""
    settings = cast(Settings, connection.app.state.settings)
    return connection.url.scheme in ("https", "wss") or (settings.public_url or "").startswith("https://")


def require_private_transport(connection: HTTPConnection) -> None:
    """Raise `NotAllowed` if a secret in the response could be read on the network."""
    if not is_secure(connection) and not session_cookie.is_loopback(connection.headers):
        raise NotAllowed(
            "nobody can sign in over plain http, because others on the network could read the session: open this page"
            " over https, or on the machine itself at http://127.0.0.1. Behind a proxy that handles https, set"
            " ONCEWARD_PUBLIC_URL to its https:// URL, or ONCEWARD_TRUSTED_PROXIES to its address and let it send"
            " X-Forwarded-Proto"
        )


def set_secret_cookie(
    connection: HTTPConnection,
    reply: Response,
    name: str,
    value: str,
    *,
    max_age_s: int | None = None,
    embedded: bool = False,
) -> None:
    """Store a secret in a cookie that scripts cannot read. Raises `NotAllowed` over plain http, except on loopback.

    `embedded` is for a page in a frame of another site: the browser keeps the cookie for this frame on that site only,
    and every form of the page must have a token against forged requests.
    """
    require_private_transport(connection)
    secure = is_secure(connection)
    stored = session_cookie.cookie_name(name, secure=secure)
    if embedded and secure:
        # The library knows no `Partitioned` before Python 3.14.
        reply.headers.append("set-cookie", f"{stored}={value}; HttpOnly; Path=/; SameSite=None; Secure; Partitioned")
        return
    reply.set_cookie(stored, value, max_age=max_age_s, httponly=True, samesite="lax", secure=secure, path="/")


def secret_cookie(connection: HTTPConnection, name: str) -> str | None:
    """Return the value of a secret cookie of the request, or None."""
    return session_cookie.secret_cookie(connection.cookies, connection.headers, name)


def delete_secret_cookie(connection: HTTPConnection, reply: Response, name: str) -> None:
    """Remove the cookie from the browser, under each name that it may have."""
    for secure in (True, False):
        stored = session_cookie.cookie_name(name, secure=secure)
        if stored in connection.cookies:
            reply.delete_cookie(stored, path="/", secure=secure, httponly=True, samesite="lax")
