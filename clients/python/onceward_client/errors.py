"""What a call can raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OncewardError(Exception):
    """An error that the server answered. `type`, `detail` and `errors` are those of its problem+json."""

    def __init__(self, status: int, problem: Mapping[str, Any], what: str) -> None:
        self.status = status
        self.type: str = str(problem.get("type", "about:blank"))
        self.detail: str = str(problem.get("detail", ""))
        self.errors: list[dict[str, str]] = list(problem.get("errors") or [])
        """The fields that are not valid: `field` and `reason`."""
        self.request_id: str | None = problem.get("request_id")
        fields = "; ".join(f"{each.get('field')}: {each.get('reason')}" for each in self.errors)
        super().__init__(f"{what}: {status} {fields or self.detail or problem.get('title') or 'without a reason'}")


class ConnectionFailed(Exception):
    """No answer arrived: every attempt failed before one, or took too long."""


class VerificationFailed(Exception):
    """A webhook is not signed with the secret, or is too old."""
