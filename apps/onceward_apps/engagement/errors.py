"""What callers of engagement can do wrong. `routes.py` chooses the HTTP status."""

from __future__ import annotations


class EngagementError(Exception):
    """A request that cannot be done. The text says why."""


class UnknownUser(EngagementError):
    """The organization has no such user."""


class InvalidProfile(EngagementError):
    """A field of a profile is wrong."""
