"""No test leaves a process behind, also when it is killed itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.child import ROOT, command, end

STARTS_ONE = """
import subprocess, sys
from tests.child import command
child = subprocess.Popen(command("tests.idle"), stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.readline()
"""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"\nState:\tZ" not in _status(pid)


def _status(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def test_a_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if sys.platform == "linux":
            os.kill(child, signal.SIGSTOP)  # a frozen one hears of nothing, and ends all the same
    finally:
        end(parent)
    deadline = time.monotonic() + 10
    while _alive(child):
        assert time.monotonic() < deadline, "it outlived its parent"
        time.sleep(0.02)


def test_a_module_run_as_a_child_gets_its_arguments() -> None:
    done = subprocess.run(
        command("tests.idle", "--once", "a b"), cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "['--once', 'a b']\n"
