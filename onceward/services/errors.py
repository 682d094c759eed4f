"""The error of a service that cannot be used."""

from __future__ import annotations


class NotSet(Exception):
    """A service is used that is not configured. The message names the missing or invalid setting or secret."""
