"""Run the command as a user does: a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from onceward.db.embedded.postmaster import find
from tests.child import ROOT, command


@dataclass
class CommandLine:
    """`cli("doctor", ONCEWARD_DATABASE_URL=...)` runs to the end; `cli.start(...)` runs beside the test."""

    directory: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *args: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "onceward", *args],
            cwd=self.directory,
            env=self._environment(env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Returns when the process says that it is up; its first line on stdout tells where."""
        process = subprocess.Popen(
            command("onceward", *args),
            cwd=self.directory,
            env=self._environment(env),
            stdout=subprocess.PIPE,
            stderr=(self.directory / "stderr.log").open("a"),
            text=True,
        )
        self.processes.append(process)
        return process

    @staticmethod
    def _environment(env: dict[str, str]) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        return {
            **clean,
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "ONCEWARD_APP": "onceward_apps.all:app",
            **env,
        }


@pytest.fixture
def cli() -> Iterator[CommandLine]:
    # Not tmp_path: pytest makes that private to this user, and as root the server is another one.
    directory = Path(tempfile.mkdtemp(prefix="onceward-cli-"))
    directory.chmod(0o755)
    line = CommandLine(directory)
    yield line
    for process in line.processes:
        process.kill()
        process.communicate()
    running = find(directory / ".onceward" / "pg")
    if running is not None:
        os.kill(running.pid, signal.SIGQUIT)
    shutil.rmtree(directory, ignore_errors=True)
