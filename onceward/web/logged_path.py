"""The path of a request as logs show it: the pattern of the route, with ids but never with a token.

A parameter of a path is shown only if its value is a number or a UUID, because any other text may be a secret: a
sign-in link, an invitation. A route whose number or UUID is a secret declares the parameter:

    @router.get("/invites/{invite}", openapi_extra=hides("invite"))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.types import Scope

ID = re.compile(r"(?:\d{1,19}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\Z")
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
FIRST_SEGMENT = re.compile(r"/[A-Za-z0-9_.-]{0,32}(?=/|\Z)")
HIDDEN = "x-onceward-hidden"
SECRET_NAMES = frozenset({"token", "code", "secret"})
"""Parameters with these names are never shown, whatever their value is."""


def hides(*names: str) -> dict[str, Any]:
    """Return the declaration that these parameters of a route's path are secrets, for `openapi_extra`."""
    return {HIDDEN: list(names)}


def logged_path(scope: Scope) -> str:
    """Return the path of a request without secrets. A path that no route matches is shown up to its second slash."""
    route = scope.get("route")
    pattern = cast("str | None", getattr(route, "path", None))
    if pattern is None:
        first = FIRST_SEGMENT.match(scope["path"])
        shown = first[0] if first is not None else "/"
        return shown if shown == scope["path"] else f"{shown.rstrip('/')}/..."
    declared = cast("Mapping[str, Any]", getattr(route, "openapi_extra", None) or {})
    hidden = cast("list[str]", declared.get(HIDDEN, []))
    values = cast("Mapping[str, Any]", scope.get("path_params", {}))

    def shown_value(match: re.Match[str]) -> str:
        value = str(values.get(match[1], ""))
        return (
            value if match[1] not in SECRET_NAMES and match[1] not in hidden and ID.match(value) else f"{{{match[1]}}}"
        )

    return PARAMETER.sub(shown_value, pattern)
