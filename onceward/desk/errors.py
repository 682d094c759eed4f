"""The errors of the desk."""

from __future__ import annotations

from onceward.errors import OncewardError


class WrongDesk(OncewardError, ValueError):
    """A desk is declared wrongly. The message names the part and what to change."""
