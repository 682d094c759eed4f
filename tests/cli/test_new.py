"""`onceward new` and what `onceward` reads from the project in the current directory."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.new import Template, create_project, package_of
from onceward.cli.project import ProjectInvalid, use_project
from onceward.process.dev import snapshot
from onceward.runtime import FEATURES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Shop", "a-z, 0-9"),
        ("../shop", "a-z, 0-9"),
        ("9shop", "beginning with a letter"),
        ("a" * 41, "at most 40"),
        ("class", "Python language"),
        ("email", "already installed"),
        ("onceward", "already installed"),
        ("tests", "folder of the project"),
        ("mail", "ONCEWARD_MAIL_"),
        ("source", "ONCEWARD_SOURCE_"),
    ],
)
def test_a_name_that_cannot_work_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(CommandFailed, match=re.escape(reason)) as refused:
        package_of(name, FEATURES)
    assert refused.value.code == Exit.USAGE
    assert repr(name) in str(refused.value)


def test_a_project_has_its_own_names_and_secrets_everywhere(tmp_path: Path) -> None:
    target = tmp_path / "my-shop"
    create_project(target, name="my-shop", package=package_of("my-shop", FEATURES))
    texts = {path.relative_to(target): path.read_text() for path in target.rglob("*") if path.is_file()}
    names = {str(path) for path in texts}
    assert {"my_shop/app.py", ".env", ".gitignore", "deploy/my-shop-worker.service", "tests/test_app.py"} <= names
    left = [path for path, text in texts.items() if re.search(r"project[_-]name|generated_|dot_", text + str(path))]
    assert left == []
    project = tomllib.loads(texts[Path("pyproject.toml")])
    assert project["tool"]["onceward"]["app"] == "my_shop.app:app"
    assert stat.S_IMODE((target / ".env").stat().st_mode) == 0o600
    assert ".env" in texts[Path(".gitignore")].splitlines()
    assert "**/.env" in texts[Path(".dockerignore")].splitlines()


def test_the_shop_template_is_paid_and_its_own_test_passes(tmp_path: Path) -> None:
    target = tmp_path / "my-shop"
    create_project(target, name="my-shop", package="my_shop", template=Template.SHOP)
    texts = {path.relative_to(target): path.read_text() for path in target.rglob("*") if path.is_file()}
    left = [path for path, text in texts.items() if re.search(r"project[_-]name|generated_|dot_", text + str(path))]
    assert left == []
    assert len(texts[Path("my_shop/app.py")].splitlines()) < 60
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{target}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False, env=env, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("mine")
    command = [sys.executable, "-m", "onceward", "new", "shop"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == Exit.USAGE
    assert "is not an empty folder" in done.stderr
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["mine.txt"]


def test_commands_use_the_app_and_the_variables_of_the_project(tmp_path: Path) -> None:
    environment = {"ONCEWARD_PORT": "1234"}
    (tmp_path / "pyproject.toml").write_text('[tool.onceward]\napp = "shop.app:app"\n')
    (tmp_path / ".env").write_text(
        "# ours\nPATH=/elsewhere\nONCEWARD_PORT=1\nexport ONCEWARD_BRAND='My # shop'\nONCEWARD_QUEUES=mail # only this\n"
    )
    use_project(tmp_path, environment)
    assert environment == {
        "ONCEWARD_APP": "shop.app:app",
        "ONCEWARD_PORT": "1234",
        "ONCEWARD_BRAND": "My # shop",
        "ONCEWARD_QUEUES": "mail",
    }


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("pyproject.toml", "[tool.onceward\n", "pyproject.toml"),
        ("pyproject.toml", "[tool.onceward]\nap = 1\n", 'app = "shop.app:app"'),
        (".env", "A=1\nONCEWARD_PORT\n", "line 2: ONCEWARD_PORT has no value"),
    ],
)
def test_a_file_of_the_project_that_cannot_be_read_is_named(tmp_path: Path, file: str, text: str, reason: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(ProjectInvalid, match=re.escape(reason)):
        use_project(tmp_path, {})


def test_a_change_of_a_source_file_is_noticed_and_data_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for folder in (data, tmp_path / ".venv", tmp_path / "shop"):
        folder.mkdir()
    source = tmp_path / "shop" / "app.py"
    source.write_text("a = 1\n")
    before = snapshot(tmp_path, data)
    (data / "state.json").write_text("{}")
    (tmp_path / ".venv" / "module.py").write_text("")
    assert snapshot(tmp_path, data) == before
    source.write_text("a = 10\n")
    (tmp_path / ".env").write_text("")
    after = snapshot(tmp_path, data)
    assert {str(path) for path, _ in before.items() ^ after.items()} == {"shop/app.py", ".env"}


@pytest.mark.slow
@pytest.mark.parametrize("user", [None, "nobody"])
def test_a_new_project_works_from_an_installed_wheel(user: str | None) -> None:
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can run the project as another user")
    command = [sys.executable, str(ROOT / "tools" / "new_project.py"), *(["--user", user] if user else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
