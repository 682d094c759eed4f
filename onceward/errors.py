"""The root of the exceptions that Onceward defines."""

from __future__ import annotations


class OncewardError(Exception):
    """The base class of every exception of Onceward. Many derive from ValueError, LookupError or TypeError as well."""
