"""`tools/install` works where uv is missing: with the oldest pip of the supported distributions, that of Debian 12."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST_PIP = "23.0.1"
TIMEOUT_S = 600


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_the_oldest_pip_installs_what_the_demo_needs_and_shows_progress(tmp_path: Path) -> None:
    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", place)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pip=={OLDEST_PIP}")
    printed = run("tools/install", "requirements-demo.lock", VENV=str(place), ONCEWARD_INSTALLER="pip")
    assert "installing with pip" in printed
    assert re.search(r"^  \d+ s: \d+ of \d+ packages", printed, re.MULTILINE), printed
    assert run(python, "-m", "pip", "--version").split()[1] == OLDEST_PIP
    run(python, "-m", "pip", "check")
    assert run(place / "bin" / "onceward", "--version").strip()
    run(python, "-c", "import onceward_apps.demo")
