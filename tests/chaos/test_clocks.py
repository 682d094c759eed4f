"""The clock of a running process can be moved, and its monotonic clock stays."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.chaos.clocks import Clock, find_library

SHOW = """
import time
began = time.monotonic()
while input():
    print(time.time(), time.monotonic() - began, flush=True)
"""


@pytest.mark.peer
@pytest.mark.skipif(find_library() is None, reason="libfaketime is not installed: apt install faketime")
def test_a_clock_is_moved_while_its_process_runs(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SHOW],
        env=clock.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for off_s in (0.0, 7200.0, -3600.5, 0.0):
            clock.set(off_s)
            process.stdin.write("?\n")
            process.stdin.flush()
            shown_s, passed_s = map(float, process.stdout.readline().split())
            assert abs(shown_s - time.time() - off_s) < 2
            assert 0 <= passed_s < 60
        process.kill()


def test_without_the_library_processes_start_as_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.chaos.clocks.find_library", lambda: None)
    clock = Clock(tmp_path / "clock")
    assert (clock.movable, clock.environ) == (False, {})
