"""Install the npm packages that a test has locked."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

NEEDS_NPM = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: apt install npm")


def installed_modules(folder: Path) -> Path:
    """Install what the lock file of the folder names, once per checkout and lock file. Return `node_modules`."""
    lock, installed = folder / "package-lock.json", folder / "node_modules"
    stamp = installed / ".locked"
    with (folder / "package.json").open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # other processes of this test run may want the same
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=200)
            if done.returncode != 0:
                pytest.skip(f"npm cannot reach its registry: {done.stderr[-200:]}")
            shutil.copy(lock, stamp)
    return installed
