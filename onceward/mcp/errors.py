"""Errors of the tools for assistants."""

from __future__ import annotations

from onceward.errors import OncewardError


class NotReachable(OncewardError):
    """The installation gave no list of its operations."""
