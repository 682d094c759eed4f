"""Each page of docs/how-to is a program, its migration and its tests. They are taken from the page and run as they stand there."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onceward import Engine, Onceward
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.testing import FrozenClock, TestInbox
from onceward.testing.simulators import Simulators
from onceward.testing.webhook_inbox import BOX
from tests.docs.test_code_blocks import ROOT, blocks_of

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
MIGRATION = re.compile(r"`migrations/(\w+\.sql)`:\n\n```sql\n(.*?)```", re.DOTALL)
TEST = re.compile(r"^async def (test_\w+)\(", re.MULTILINE)
CASES = [(page, name) for page in PAGES for name in TEST.findall(page.read_text("utf-8"))]


def code_of(page: Path) -> tuple[str, str, str]:
    """Return the name of the page's module, its code, and the code of its tests. Both keep the line numbers of the page."""
    blocks = blocks_of(page, page.read_text("utf-8"))
    program, tests = ("\n" * block.line + block.code for block in blocks)
    name = re.match(r"\n*# (\w+)\.py\n", program)
    assert name is not None, f"{page.name}: the first block begins with the name of its file"
    assert tests.lstrip().startswith(f"# test_{name[1]}.py\n")
    return name[1], program, tests


@pytest.fixture
def program(page: Path, tmp_path: Path) -> Iterator[ModuleType]:
    """The module of the page, beside its migrations, under the name by which its tests import it."""
    name, code, _ = code_of(page)
    (tmp_path / "migrations").mkdir()
    for file, sql in MIGRATION.findall(page.read_text("utf-8")):
        (tmp_path / "migrations" / file).write_text(sql)
    module = ModuleType(name)
    module.__file__ = str(tmp_path / f"{name}.py")
    sys.modules[name] = module
    exec(compile(code, str(page), "exec"), module.__dict__)
    yield module
    del sys.modules[name]


@asynccontextmanager
async def fixtures(app: Onceward, db: Database, wanted: set[str]) -> AsyncIterator[dict[str, Any]]:
    """Yield what the plugin of onceward.testing gives to the tests of a user."""
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.plus(app.features()).migrations)
    engine = Engine(db, app.registry, event_types=app.event_types, box=BOX)
    async with AsyncExitStack() as stack:
        await engine.start()
        stack.push_async_callback(engine.stop)
        given: dict[str, Any] = {"onceward_engine": engine}
        if "onceward_clock" in wanted:
            given["onceward_clock"] = await stack.enter_async_context(FrozenClock(db, datetime.now(UTC)))
        if "onceward_simulators" in wanted:
            given["onceward_simulators"] = await stack.enter_async_context(Simulators())
            stack.push_async_callback(app.services.aclose)
        if "onceward_inbox" in wanted:
            given["onceward_inbox"] = await stack.enter_async_context(TestInbox(engine, app))
        yield given


@pytest.mark.parametrize(("page", "name"), CASES, ids=[f"{page.stem}-{name}" for page, name in CASES])
async def test_the_page_does_what_its_own_test_says(page: Path, name: str, program: ModuleType, db: Database) -> None:
    tests: dict[str, Any] = {"__name__": f"test_{program.__name__}"}
    exec(compile(code_of(page)[2], str(page), "exec"), tests)
    wanted = set(inspect.signature(tests[name]).parameters)
    async with fixtures(program.app, db, wanted) as given:
        await tests[name](**{each: given[each] for each in wanted})


def test_every_page_has_tests() -> None:
    assert {page for page, _ in CASES} == set(PAGES)
    assert len(PAGES) >= 5
