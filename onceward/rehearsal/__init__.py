"""Rehearsals: what handlers would do to recorded work, seen in transactions that are always rolled back.

Internal: use `onceward rehearse`, and `rehearse` and `assert_effects` of `onceward.testing`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.rehearsal.effects import Effects, Rehearsal, RowChange
    from onceward.rehearsal.errors import RehearsalError
    from onceward.rehearsal.recorded_work import RecordedWork, dead_letter_ids, find_ids, load, sample
    from onceward.rehearsal.rehearser import Rehearser
    from onceward.rehearsal.settings import RehearsalSettings

__all__ = [
    "Effects",
    "Rehearsal",
    "RehearsalError",
    "Rehearser",
    "RowChange",
]

__getattr__ = lazy(__name__, __file__)
