"""Every SQL statement of the documentation is executed by a scene or by a test named below, or there is a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.all import app as bundled
from tests.docs import sql_scenes
from tests.docs.sql_scenes import SCENES, SqlWorld
from tests.docs.sql_texts import SqlText, documented_sql, sql_of
from tests.docs.test_code_blocks import ROOT

TESTS = ROOT / "tests"
EXECUTED_ELSEWHERE = {
    ("README.md", ""): TESTS / "docs" / "test_readme.py",
    ("docs/tutorial.md", ""): TESTS / "docs" / "test_tutorial.py",
    ("docs/how-to/", ""): TESTS / "docs" / "test_how_to.py",
    ("docs/runbook.md", "What is dead, by task"): TESTS / "docs" / "test_runbook_queries.py",
    ("docs/apps/coursegen.md", ""): TESTS / "coursegen" / "test_deployment.py",
}
NOT_EXECUTED = {
    ("docs/database.md", "create or replace"): "the beginning of a statement, in a rule about function files",
    ("docs/database.md", "revoke all ... from public"): "the rule that every function file has such a line",
}


def holds(place: tuple[str, str], text: SqlText) -> bool:
    page, part = place
    return page in text.page.as_posix() and part in text.code


EXECUTED = [
    text for text in documented_sql() if not any(holds(place, text) for place in (*EXECUTED_ELSEWHERE, *NOT_EXECUTED))
]


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of all bundled apps, as the demo has them."""
    with TestDatabases(server_url, FEATURES.plus(bundled.features()).migrations) as databases:
        yield databases


@pytest.mark.parametrize("text", EXECUTED, ids=str)
async def test_the_sql_does_what_its_page_says(text: SqlText, db: Database, database_url: str) -> None:
    scenes = [scene for place, scene in SCENES.items() if holds(place, text)]
    assert len(scenes) == 1, f"{text} has {len(scenes)} scenes in {Path(sql_scenes.__file__).name}; add one"
    await scenes[0](await SqlWorld.prepare(text, db, database_url))


def test_every_scene_and_every_exception_has_its_text() -> None:
    places = (*SCENES, *EXECUTED_ELSEWHERE, *NOT_EXECUTED)
    assert [place for place in places if not any(holds(place, text) for text in documented_sql())] == []
    assert all(path.exists() for path in EXECUTED_ELSEWHERE.values())


def test_blocks_sentences_and_shell_commands_are_found() -> None:
    page = """Call `select one()`, not `select`.

    ```sql
    select ';'; -- two
    select 2;
    ```

```sh
onceward db psql -Atc "select '{\\"three\\": 3}'"
```
"""
    block, command, inline = sql_of(ROOT / "README.md", page)
    assert (block.line, block.statements()) == (3, ["select ';'", "select 2"])
    assert (command.line, command.code) == (8, "select '{\"three\": 3}'")
    assert (inline.line, inline.code) == (1, "select one()")
