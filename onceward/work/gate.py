"""Gates: named points between statements or commits at which a test can stop the process.

In production a gate only compares a hook with None. `onceward.testing.crash_test` sets the hook and crashes a handler
at each gate in turn.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None
"""Called with the name of the gate. It may raise, or break the connection, at that point."""


def gate(name: str) -> None:
    """Call the hook, if a test has set one."""
    if hook is not None:
        hook(name)
