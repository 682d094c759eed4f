"""The error of a service that cannot be used."""

from __future__ import annotations

from onceward.errors import OncewardError


class NotSet(OncewardError):
    """A service is used that is not configured. The message names the missing or invalid setting or secret."""
