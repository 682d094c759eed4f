"""Features are put in the order in which they build on each other; what cannot be ordered is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.feature import Feature, FeatureOrder, Features, Part
from onceward.runtime import FEATURES


def names(features: Features) -> list[str]:
    return [each.name for each in features]


def test_a_feature_comes_after_what_it_builds_on_and_otherwise_stays_where_it_is() -> None:
    given = [Feature(name="c", after=("b",)), Feature(name="a"), Feature(name="b", after=("a",))]
    assert names(Features.of(given)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([Feature(name="a", after=("b",)), Feature(name="b", after=("a",))], "in a circle: a, b"),
        ([Feature(name="a", after=("ghost",))], "depends on 'ghost', which is not installed"),
        ([Feature(name="a"), Feature(name="a")], "two features are named 'a'"),
    ],
)
def test_what_cannot_be_ordered_is_refused_by_name(given: list[Feature], words: str) -> None:
    with pytest.raises(FeatureOrder, match=words):
        Features.of(given)


def test_parts_start_by_stage_and_within_one_by_feature() -> None:
    first = Feature(name="first", parts=(Part("web", "m:x", stage="web"), Part("loop", "m:x")))
    second = Feature(
        name="second", after=("first",), parts=(Part("other loop", "m:x"), Part("work", "m:x", stage="worker"))
    )
    started = Features.of([second, first]).parts(frozenset({"web"}))
    assert [part.name for part in started] == ["loop", "other loop", "work", "web"]


def test_every_reference_of_the_engine_leads_somewhere() -> None:
    for field in ("commands", "routes", "mounts", "error_handlers", "pages", "queries", "checks", "doctor", "erasers"):
        FEATURES.load(field)
    assert all(folder.directory.is_dir() for folder in FEATURES.migrations)


def test_every_folder_with_migrations_belongs_to_a_feature() -> None:
    root = Path(__file__).parents[2] / "onceward"
    declared = {folder.directory for folder in FEATURES.migrations}
    assert {path for path in root.glob("*/migrations") if path.is_dir()} == declared
