"""The pytest plugin works in a project of its own, and says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_example_of_a_tested_app_passes() -> None:
    done = run(ROOT / "examples" / "tested_app")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_a_test_without_an_app_gets_an_error_that_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(onceward_app): ...\n")
    done = run(tmp_path)
    assert done.returncode == 1
    assert 'set onceward_app = "module:name" in the pytest settings' in done.stdout


def test_the_plugin_imports_nothing_of_onceward_in_a_project_that_does_not_use_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert not [n for n in sys.modules if n.startswith('onceward.db')]\n"
    )
    assert run(tmp_path).returncode == 0


def test_a_running_process_answers_over_http(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import aiohttp, pytest\n"
        "from onceward import Onceward\n"
        "@pytest.fixture(scope='session')\n"
        "def onceward_app(): return Onceward('small')\n"
        "async def test_it(onceward_process, onceward_simulators):\n"
        "    async with aiohttp.ClientSession() as client:\n"
        "        async with client.get(onceward_process.web.url + '/readyz') as answer:\n"
        "            assert answer.status == 200\n"
        "    assert onceward_simulators.stripe.url.startswith('http://127.0.0.1')\n"
    )
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
