"""The shipped server as a process, and a client that speaks to it in bytes."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import resource
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.child import ROOT, command, end

SECRET = "whsec_a_secret_of_the_edge_tests_0001"
WAIT_S = 60
"""How long a test waits for something that must happen; under load it may take long."""


@dataclass(frozen=True)
class Answer:
    """One answer as it was read."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection. Every client address below 127.0.0.0/8 is another client to the server."""

    def __init__(self, port: int, source: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S, source_address=(source, 0))
        self.unread = b""

    def send(self, data: bytes) -> Client:
        self.socket.sendall(data)
        return self

    def half_close(self) -> Client:
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_more(self) -> bool:
        """False when the server has closed or reset the connection."""
        try:
            piece = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.unread += piece
        return bool(piece)

    def answer(self) -> Answer | None:
        """The next answer; None when the server closed the connection without one."""
        while b"\r\n\r\n" not in self.unread:
            if not self.read_more():
                return None
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        while len(self.unread) < size and self.read_more():
            pass
        body, self.unread = self.unread[:size], self.unread[size:]
        return Answer(int(lines[0].split()[1]), headers, body)

    def answers(self) -> list[Answer]:
        """All answers until the server closes the connection."""
        found: list[Answer] = []
        while (answer := self.answer()) is not None:
            found.append(answer)
        return found

    def is_open(self) -> bool:
        """Whether the server has neither closed the connection nor sent anything."""
        return not select.select([self.socket], [], [], 0)[0]


class Shipped:
    """`onceward serve` in a process of its own."""

    def __init__(self, database_url: str, *, descriptors: int | None = None, **settings: object) -> None:
        self.log = Path(tempfile.mkstemp(prefix="onceward-edge-", suffix=".log")[1])
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        environment = {
            **clean,
            "PYTHONPATH": str(ROOT),
            "ONCEWARD_DATABASE_URL": database_url,
            "ONCEWARD_DATA_DIR": tempfile.mkdtemp(prefix="onceward-edge-"),
            "ONCEWARD_SECRET_KEY": "a key that is long enough for the tests",
            "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
            "ONCEWARD_PORT": "0",
            "ONCEWARD_POOL_MAX": "5",
            "ONCEWARD_LOG_FORMAT": "json",
            "ONCEWARD_ACCESS_LOG": "false",
            "ONCEWARD_TRUSTED_PROXIES": "127.0.0.200",
            **{f"ONCEWARD_{name.upper()}": str(value) for name, value in settings.items()},
        }

        def limit() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.process = subprocess.Popen(
            command("onceward", "serve", "onceward_apps.all:app"),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("w"),
            text=True,
            preexec_fn=limit,
        )
        self.ps = psutil.Process(self.process.pid)
        listening = self.until(lambda: self.logged("web_server.started"), "the server did not start")
        self.port = int(listening[0]["url"].rsplit(":", 1)[1])

    def stop(self) -> None:
        end(self.process)
        self.log.unlink()

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [found for found in map(json.loads, lines) if found.get("event") == event]

    def tracebacks(self) -> list[str]:
        """Log lines that carry a traceback: what a bug looks like."""
        return [line for line in self.log.read_text().splitlines() if "Traceback" in line]

    def until(self, ask: Callable[[], Any], otherwise: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while not (found := ask()):
            assert time.monotonic() < deadline, f"{otherwise}\n{self.log.read_text()[-3000:]}"
            assert self.process.poll() is None, f"the server ended\n{self.log.read_text()[-3000:]}"
            time.sleep(0.02)
        return found

    def connect(self, source: str = "127.0.0.1") -> Client:
        return Client(self.port, source)

    def ask(self, request: bytes, source: str = "127.0.0.1") -> list[Answer]:
        """Send the bytes on a connection of their own, and read until the server ends it."""
        with self.connect(source) as client:
            return client.send(request).answers()

    def get(self, path: str, *headers: str) -> Answer:
        found = self.ask(request("GET", path, *headers, "connection: close"))
        assert len(found) == 1
        return found[0]

    def post(self, path: str, body: bytes, *headers: str) -> Answer:
        found = self.ask(request("POST", path, *headers, "connection: close", body=body))
        assert len(found) == 1
        return found[0]

    def is_well(self) -> bool:
        """Somebody else, from another address, is served."""
        with self.connect("127.0.0.99") as client:
            answer = client.send(request("GET", "/healthz")).answer()
            return answer is not None and answer.status == 200

    def forget_peak(self) -> None:
        """Let the highest memory be counted from here on (Linux)."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def cpu_s(self) -> float:
        times = self.ps.cpu_times()
        return times.user + times.system

    def descriptors(self) -> int:
        return self.ps.num_fds()


def request(method: str, path: str, *headers: str, body: bytes | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: here", *headers]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def event(event_id: str) -> bytes:
    return json.dumps({"id": event_id, "type": "charge.succeeded", "data": {"object": {}}}).encode()


def signature(body: bytes) -> str:
    at = int(time.time())
    digest = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"stripe-signature: t={at},v1={digest}"
