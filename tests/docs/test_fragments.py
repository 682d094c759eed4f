"""Every Python block of the documentation that does not define an app is executed by a scene, or by a test named below."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward import Engine, Onceward
from onceward.db import Database
from tests.docs import fragment_scenes, fragment_scenes_moving, fragment_scenes_work
from tests.docs.fragment_world import SCENES, TABLES, Place, World
from tests.docs.test_code_blocks import ROOT, CodeBlock, documented_blocks

EXECUTED_ELSEWHERE = {
    Place("docs/tutorial.md", ""): ROOT / "tests" / "docs" / "test_tutorial.py",
    Place("docs/rehearsal.md", "assert_effects(shown"): ROOT / "tests" / "rehearsal" / "test_testing.py",
    Place("docs/how-to/", "async def test_"): ROOT / "tests" / "docs" / "test_how_to.py",
    Place("docs/integrations/", "def verify"): ROOT / "tests" / "services" / "test_services_docs.py",
    Place("docs/work.md", "asyncio.run(main())"): ROOT / "tests" / "work" / "test_script_engine.py",
}
TEMPLATES = ("receipt", "order-confirmation", "order-received", "reminder", "newsletter", "sign-in")
FRAGMENTS = [
    block
    for block in documented_blocks()
    if not block.defines_app() and not any(place.holds(block) for place in EXECUTED_ELSEWHERE)
]
assert fragment_scenes
assert fragment_scenes_moving
assert fragment_scenes_work


@pytest.mark.parametrize("block", FRAGMENTS, ids=str)
async def test_the_fragment_does_what_its_page_says(
    block: CodeBlock, database_url: str, db: Database, tmp_path: Path
) -> None:
    scenes = [scene for place, scene in SCENES.items() if place.holds(block)]
    assert len(scenes) == 1, f"{block} has {len(scenes)} scenes in tests/docs/fragment_scenes*.py; add one"
    await db.execute(TABLES)
    app = Onceward("shop")
    for name in TEMPLATES:
        (tmp_path / "templates" / name).mkdir(parents=True)
        (tmp_path / "templates" / name / "en.txt").write_text(f"Subject: {name}\n\nText.\n")
    app.templates(tmp_path / "templates")
    engine = Engine(db, app.registry, event_types=app.event_types)
    await engine.start()
    try:
        await scenes[0](World(block, app, engine, database_url, tmp_path))
    finally:
        await engine.stop()


def test_every_scene_has_its_fragment() -> None:
    unused = [place for place in SCENES if not any(place.holds(block) for block in FRAGMENTS)]
    assert unused == []


def test_the_tests_that_execute_other_fragments_exist() -> None:
    assert all(path.exists() for path in EXECUTED_ELSEWHERE.values())
