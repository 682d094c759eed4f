"""Gates: named moments between two statements or commits, at which a test may make the process die.

In production a gate is one comparison with None. `onceward.testing.crash_test` sets the hook and crashes a handler
at each gate in turn.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None
"""Called with the gate's name; whatever it raises, or does to the connection, happens there."""


def gate(name: str) -> None:
    """Pass, unless somebody has other plans."""
    if hook is not None:
        hook(name)
