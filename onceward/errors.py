"""The roots of the exceptions that Onceward defines."""

from __future__ import annotations


class OncewardError(Exception):
    """The base class of every exception of Onceward. Many derive from ValueError, LookupError or TypeError as well."""


class Signal(BaseException):
    """The base class of signals between parts of Onceward. A handler neither catches nor raises them.

    Any other BaseException that leaves a handler is a failure of its work (onceward/work/leaks.py).
    """
