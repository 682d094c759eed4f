"""A running installation is upgraded under load, and every acknowledged webhook has exactly one effect.

The previous version is the tag 0.1.0 if this clone has it. Otherwise both versions come from the working tree, and the newer one gets a
made-up release on top (tools/upgrade/trees.py); `versions.origin` says which, and it is printed.
"""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.testing import TestDatabases
from tools.upgrade.run import Shape, run
from tools.upgrade.trees import commit_of, prepare

SHORT = Shape(roles=("up",), rate=40, acknowledged_between_steps=15, goes_back=False)
LONG = Shape(acknowledged_between_steps=60)


@pytest.fixture
def empty(server_url: str) -> Iterator[str]:
    """The URL of an empty database."""
    with TestDatabases(server_url, []) as databases:
        url = databases.create()
        yield url
        databases.release(url)


async def upgraded(folder: Path, shape: Shape, url: str) -> None:
    versions = await asyncio.to_thread(prepare, folder)
    print(versions.origin)
    seen, problems = await run(folder, versions, shape, url)
    assert problems == []
    assert len(seen.acknowledged) >= 3 * shape.acknowledged_between_steps


async def test_a_node_is_upgraded_under_load(empty: str, tmp_path: Path) -> None:
    await upgraded(tmp_path, SHORT, empty)


@pytest.mark.slow
async def test_four_nodes_are_upgraded_one_by_one_back_and_forth_under_load(empty: str, tmp_path: Path) -> None:
    await upgraded(tmp_path, LONG, empty)


def test_without_the_tag_the_next_release_is_made_up_and_the_origin_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.upgrade.trees.commit_of", lambda _: None)
    versions = prepare(tmp_path)
    assert "no tag 0.1.0 in this clone" in versions.origin
    added = [path.name for path in (versions.new.source / "onceward/inbox/migrations").glob("*.sql")]
    kept = [path.name for path in (versions.old.source / "onceward/inbox/migrations").glob("*.sql")]
    assert sorted(set(added) - set(kept)) == ["0002_next.sql", "0003_index.sql", "0004_contract.sql"]


@pytest.mark.slow
def test_a_version_of_the_repository_is_used_if_it_is_named(tmp_path: Path) -> None:
    if commit_of("HEAD") is None:
        pytest.skip("this is not a clone")
    versions = prepare(tmp_path, old="HEAD")
    assert versions.origin.startswith("old: HEAD; new: ")
    assert (versions.old.source / "onceward/__init__.py").exists()


def test_the_old_version_may_be_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "onceward-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("onceward/__init__.py", '__version__ = "0.1.0"\n')
        archive.writestr("onceward-0.1.0.dist-info/METADATA", "Name: onceward\n")
    versions = prepare(tmp_path / "trees", old=str(wheel))
    assert versions.origin == f"old: {wheel}; new: the working tree"
    assert [path.name for path in versions.old.source.iterdir()] == ["onceward"]
    with pytest.raises(SystemExit, match="make release"):
        prepare(tmp_path / "others", old=str(tmp_path / "missing.whl"))
