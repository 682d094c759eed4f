"""What a button of a page does: one function, run for an identity that may, answered with a page or a way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceward.trust.identity import Identity, Scope

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site


class Refused(ValueError):
    """What was asked for cannot be done; the message says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class Done:
    """Go to `to` and say `said` there; or show the template `page`, for what may be shown only once."""

    to: str = "/"
    said: str = ""
    page: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """POST to `path`. A session shows its CSRF token, or nothing happens."""

    path: str
    run: Callable[[Site, Identity, Mapping[str, str]], Awaitable[Done]]
    scope: Scope = "operator"
    instance: bool = False


def reason_of(form: Mapping[str, str]) -> str:
    """Why, in the words of whoever does it: it goes into the audit log."""
    reason = form.get("reason", "").strip()[:500]
    if not reason:
        raise Refused("say why: the reason goes into the audit log")
    return reason


def back(form: Mapping[str, str], otherwise: str) -> str:
    """Where the form was; only to a page of ours."""
    wanted = form.get("back", "")
    return wanted if wanted == "/" or (wanted.startswith("/dashboard/") and "\\" not in wanted) else otherwise
