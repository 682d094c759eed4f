"""`onceward up` and what becomes of it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import psutil

from onceward.db.embedded.postmaster import find
from tests.cli.conftest import CommandLine


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, line
    return found[0]


def get(url: str) -> tuple[int, dict[str, object]]:
    with urllib.request.urlopen(url, timeout=5) as response:
        return response.status, json.load(response)


def processes_in(directory: object) -> list[str]:
    """Command lines of what still runs for this directory, the database included."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(str(directory)):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_ctrl_c_leaves_no_process_and_the_next_start_finds_its_data(cli: CommandLine) -> None:
    first = cli.start("up", "--port", "0")
    status, body = get(url_of(first) + "/readyz")
    assert (status, body["status"]) == (200, "ready")
    assert processes_in(cli.directory) != []
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=20) == 0
    assert processes_in(cli.directory) == []

    began = time.monotonic()
    second = cli.start("up", "--port", "0")
    assert get(url_of(second) + "/readyz")[0] == 200
    assert time.monotonic() - began < 20, "5 s on a quiet machine; the rest is for a busy one"
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=20) == 0
    assert processes_in(cli.directory) == []


def test_kill_9_of_everything_needs_no_repair(cli: CommandLine) -> None:
    first = cli.start("up", "--port", "0")
    url_of(first)
    running = find(cli.directory / ".onceward" / "pg")
    assert running is not None
    first.kill()
    first.wait()
    os.kill(running.pid, signal.SIGKILL)
    second = cli.start("up", "--port", "0")
    assert get(url_of(second) + "/readyz")[0] == 200
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=20) == 0


def test_signal_during_the_start_leaves_nothing_behind(cli: CommandLine) -> None:
    process = cli.start("up", "--port", "0")
    deadline = time.monotonic() + 20
    while not (cli.directory / ".onceward" / "pg.lock").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert processes_in(cli.directory) == []


def test_two_commands_share_one_server_and_the_last_stops_it(cli: CommandLine) -> None:
    web = cli.start("serve", "--port", "0")
    url = url_of(web)
    worker = cli.start("worker")
    assert worker.stdout is not None
    assert "worker" in worker.stdout.readline()
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=20) == 0
    assert get(url + "/readyz")[0] == 200
    web.send_signal(signal.SIGINT)
    assert web.wait(timeout=20) == 0
    assert processes_in(cli.directory) == []


def test_port_that_is_taken_is_one_line_and_leaves_nothing_running(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = cli("up", ONCEWARD_PORT=str(taken.getsockname()[1]))
    assert ended.returncode == 1
    assert "ONCEWARD_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert processes_in(cli.directory) == []
