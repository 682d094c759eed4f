"""The two wheels: the library without a product, and the apps."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
ENTRY_POINT = re.compile(r"^\w+ = (\S+)$", re.MULTILINE)


def built(project: Path, folder: Path) -> zipfile.ZipFile:
    [wheel] = WheelBuilder(str(project)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return built(ROOT, tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return built(ROOT / "apps", tmp_path_factory.mktemp("apps"))


def sources(package: Path) -> set[str]:
    """The files of a package, as a wheel names them."""
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(package.parent)) for path in files if path.suffix != ".pyc"}


def test_the_engine_contains_itself_and_the_browser_client_and_nothing_else(engine: zipfile.ZipFile) -> None:
    names = {name for name in engine.namelist() if ".dist-info/" not in name}
    client = {name for name in names if name.startswith("onceward/live/js/")}
    assert "onceward/live/js/client.js" in client
    assert names - client == sources(ROOT / "onceward") - {"onceward/cli/bench.py"}


def test_the_engine_names_no_app(engine: zipfile.ZipFile) -> None:
    code = (name for name in engine.namelist() if ".dist-info/" not in name)
    named = [name for name in code if b"onceward_apps" in engine.read(name)]
    assert named == []


def test_the_wheel_of_the_apps_contains_every_file_of_them(apps: zipfile.ZipFile) -> None:
    assert {name for name in apps.namelist() if ".dist-info/" not in name} == sources(ROOT / "apps" / "onceward_apps")


def test_the_apps_name_what_they_offer(apps: zipfile.ZipFile) -> None:
    [path] = [name for name in apps.namelist() if name.endswith("entry_points.txt")]
    named = ENTRY_POINT.findall(apps.read(path).decode())
    folders = {each.parent.name for each in (ROOT / "apps" / "onceward_apps").glob("*/app.py")}
    assert set(named) == {f"onceward_apps.{name}:app" for name in {*folders, "all", "demo"}}


def test_both_have_one_version() -> None:
    engine, apps = (
        tomllib.loads((ROOT / path).read_text())["project"] for path in ("pyproject.toml", "apps/pyproject.toml")
    )
    assert apps["version"] == engine["version"]
    assert f"onceward=={engine['version']}" in apps["dependencies"]
