"""A test that was skipped for want of an installable package fails the run, if the run asks for the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import ROOT

SKIPPED = """
import pytest
@pytest.mark.skipif(True, reason="Redis is not installed: apt install redis-server")
def test_x(): ...
"""


@pytest.mark.parametrize(("required", "code"), [("", 0), ("chromium", 0), ("chromium redis-server", 1)])
def test_a_skip_fails_the_run_only_if_its_package_is_required(tmp_path: Path, required: str, code: int) -> None:
    (tmp_path / "test_one.py").write_text(SKIPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.skips", "-p", "no:cacheprovider", "test_one.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ONCEWARD_TEST_REQUIRE": required},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout
    assert "apt install redis-server" in ended.stdout, "every skip is printed with its reason"
