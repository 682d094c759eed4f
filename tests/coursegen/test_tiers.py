"""Tiers: how many courses a user may generate at the same time."""

from __future__ import annotations

import pytest

from onceward_apps.coursegen.tiers import Tiers


def test_tiers_are_read_from_text_and_unknown_ones_count_as_the_smallest() -> None:
    assert [Tiers().of(tier) for tier in ("FREE", "BASIC", "STANDARD", "premium", "GOLD", None)] == [1, 2, 3, 5, 1, 1]
    assert Tiers.parse("free=2, team=9").of("TEAM") == 9
    assert Tiers().head_start_s("PREMIUM") > Tiers().head_start_s("FREE") == 0
    with pytest.raises(ValueError, match="must have the form"):
        Tiers.parse("FREE")
