"""`onceward dev`: run `onceward up` in a child process, and start it again after each change of the project's files.

The parent uses the embedded server too, so that the server keeps running while the child restarts. If the child ends by
itself (a syntax error, a wrong setting), the parent waits for the next change.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

from onceward.cli.exits import Exit
from onceward.cli.rendering import say
from onceward.db.embedded import EmbeddedPostgres
from onceward.settings import Settings

PR_SET_PDEATHSIG = 1
LOOK_EVERY_S = 0.5
KILL_AFTER_S = 10.0
WATCHED = frozenset(
    {".env", ".html", ".j2", ".json", ".md", ".mjml", ".po", ".py", ".sql", ".toml", ".txt", ".yaml", ".yml"}
)
SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "tests", "venv", "wheels"})
DEFAULTS = {"ONCEWARD_SHUTDOWN_GRACE_S": "2", "ONCEWARD_ALLOW_LOOPBACK_ENDPOINTS": "true"}
"""Settings of the child unless they are set: restart fast, and deliver outbound webhooks to programs on this
machine."""


class Development:
    """Runs the app in a child process until SIGINT, SIGTERM or the end of the terminal."""

    def __init__(self, app: str, settings: Settings, directory: Path) -> None:
        self._app = app
        self._settings = settings
        self._directory = directory
        self._stop = threading.Event()

    def run(self) -> Exit:
        """Run until a signal arrives. Return the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        settings = self._settings
        server = EmbeddedPostgres(settings.data_dir) if settings.database_url is None else nullcontext()
        with server:
            self._introduce()
            while not self._stop.is_set():
                self._run_until_changed()
        return Exit.OK

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def _introduce(self) -> None:
        host = "127.0.0.1" if self._settings.host in ("0.0.0.0", "::") else self._settings.host
        say(f"watching {self._directory} for changes; press Ctrl-C to stop")
        if self._settings.port:
            url = f"http://{host}:{self._settings.port}"
            say(f"received webhooks: {url}/dashboard/events; send one: `onceward trigger PROVIDER TYPE -s SOURCE`")

    def _run_until_changed(self) -> None:
        before = snapshot(self._directory, self._settings.data_dir)
        child = subprocess.Popen(
            [sys.executable, "-m", "onceward", "up", self._app, *self._address()],
            cwd=self._directory,
            env={**DEFAULTS, **os.environ},
            # Ctrl-C must reach only the parent, which then ends the child once.
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        try:
            reported = False
            while not self._stop.wait(LOOK_EVERY_S):
                if child.poll() is not None and not reported:
                    reported = True
                    say(f"the app ended with exit code {child.returncode}; waiting for a change")
                after = snapshot(self._directory, self._settings.data_dir)
                if after != before:
                    changed = sorted(str(path) for path, _ in before.items() ^ after.items())
                    say(f"{changed[0]} has changed; starting again")
                    return
        finally:
            end(child)

    def _address(self) -> list[str]:
        return ["--host", self._settings.host, "--port", str(self._settings.port)]


def snapshot(directory: Path, data_dir: Path) -> dict[Path, tuple[int, int]]:
    """Return the watched files of a project, relative to it, with the time of their last change and their size."""
    found: dict[Path, tuple[int, int]] = {}
    for folder, folders, files in os.walk(directory):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and not name.startswith(".") and here / name != data_dir.absolute()
        ]
        for name in files:
            path = here / name
            if path.suffix in WATCHED or name in WATCHED:
                try:
                    status = path.stat()
                except FileNotFoundError:  # an editor replaced it meanwhile
                    continue
                found[path.relative_to(directory)] = (status.st_mtime_ns, status.st_size)
    return found


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends, even if the parent was killed. Linux only."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(child: subprocess.Popen[bytes]) -> None:
    """Let the child finish its running work; kill it if this takes too long."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(timeout=KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
