"""An action behind a button of a page: one function that requires a scope and returns a page or a redirect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceward.errors import OncewardError
from onceward.trust.identity import Identity, Scope
from onceward.web.exposure import Effect

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site


class ActionRefused(OncewardError, ValueError):
    """The action cannot be done. The message says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class Done:
    """Redirect to `to` and show `message` there, or show the template `page` for data that is shown once."""

    to: str = "/"
    message: str = ""
    page: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action at `POST path`. A session must send its CSRF token."""

    path: str
    run: Callable[[Site, Identity, Mapping[str, str]], Awaitable[Done]]
    causes: tuple[Effect, ...]
    """What it can cause outside of the database, for the table of routes in docs/security.md."""
    scope: Scope = "operator"
    roles: tuple[str, ...] = ()
    """Roles of a desk that are enough, without the scope."""
    instance: bool = False
    recent: bool = False
    """Whether the person must have proven who they are a short time ago: for keys, secrets and exports."""
    allow_pending: bool = False
    """Whether a session that lacks its second factor may do it: for adding one."""


def reason_of(form: Mapping[str, str]) -> str:
    """Return the user's reason for the audit log. Raises `Refused` if there is none."""
    reason = form.get("reason", "").strip()[:500]
    if not reason:
        raise ActionRefused("give a reason: it is written to the audit log")
    return reason


def back(form: Mapping[str, str], otherwise: str) -> str:
    """Return the path of the form's page, or `otherwise` if the path is not one of the dashboard."""
    return local_path(form.get("back", ""), otherwise)


def local_path(path: str, otherwise: str = "/") -> str:
    """Return the path if it is a page of the dashboard, so that no link leads to another site."""
    return path if path == "/" or (path.startswith("/dashboard/") and "\\" not in path) else otherwise
