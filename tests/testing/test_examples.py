"""The projects in `examples/` pass their own tests, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PLUGINS = ("-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "-p", "onceward.testing.pytest_plugin")
"""What a user's project has. The other plugins of this repository would take longer to import than the tests to run."""


@pytest.mark.parametrize("name", ["fastapi_app", "sqlalchemy_app", "django_app", "psycopg_app"])
def test_onceward_works_inside_an_existing_application(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS],
        cwd=EXAMPLES / name,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_example_is_run() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if any(path.glob("test_*.py"))}
    assert names == {"tested_app", "fastapi_app", "sqlalchemy_app", "django_app", "psycopg_app"}


def test_djangos_own_test_runner_gives_the_test_database_our_tables(database_url: str) -> None:
    folder = EXAMPLES / "django_app"
    environment = {**os.environ, "ONCEWARD_DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "settings"}
    done = subprocess.run(
        [sys.executable, "-m", "django", "test", "--pattern", "django_tests.py", "--noinput"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 1 test" in done.stderr
