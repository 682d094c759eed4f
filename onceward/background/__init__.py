"""Everything that a process does in the background: loops under a supervisor, and short tasks whose failure is
logged."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.background.cancellation import end
    from onceward.background.loop import Loop
    from onceward.background.supervisor import Supervisor, current_supervisor, supervised_by
    from onceward.background.tasks import Tasks, spawn
    from onceward.background.time_limit import TimeLimit

__all__ = [
    "Loop",
    "Tasks",
]

__getattr__ = lazy(__name__, __file__)
