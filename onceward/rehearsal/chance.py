"""Find what varies by chance: a difference that two rehearsals of the same code have too is none."""

from __future__ import annotations

from onceward.rehearsal.comparison import Difference, differences, side_of
from onceward.rehearsal.effects import Rehearsal


def without_chance(found: list[Difference], one: Rehearsal, again: Rehearsal) -> list[Difference]:
    """Return the differences without those between two rehearsals of the same work with the same code."""
    by_chance = {each.what for each in differences(side_of(one), side_of(again))}
    return [each for each in found if each.what not in by_chance]
