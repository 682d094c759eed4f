"""Somebody who follows the tutorial literally, in a fresh folder, with the programs of some environment."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser import CHROMIUM_ARGUMENTS
from tests.docs.tutorial_steps import RunCommands, UseBrowser, WriteFile, tutorial_steps

WITHIN_S = 60.0
PORT = "8400"


class TutorialReader:
    """Somebody who follows the tutorial with two terminals and a browser."""

    def __init__(self, folder: Path, *, programs: Path, python_path: Path | None = None) -> None:
        """`programs` is the folder with `onceward` and `pytest`; `python_path` is for sources that are not installed."""
        self.folder = folder
        self.log = folder / "dev.log"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = str(listening.getsockname()[1])
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.env = clean | {"PATH": path, "ONCEWARD_PORT": self.port}
        if python_path is not None:
            self.env["PYTHONPATH"] = str(python_path)
        self.dev: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.changed = False

    def follow(self) -> None:
        """Do every step of the tutorial in order. Raise if a step does not do what the page says."""
        try:
            with browser_page() as page:
                for step in tutorial_steps():
                    match step:
                        case WriteFile():
                            self.write(step)
                        case RunCommands():
                            self.run(step)
                        case UseBrowser():
                            self.browse(page, step.action)
                    if isinstance(step, RunCommands) and any("o-4" in command for command in step.commands):
                        page.get_by_text("3 orders, 3 packed").wait_for()
        finally:
            self.stop()

    def run(self, step: RunCommands) -> None:
        self.wait_for_restart()
        for command in step.commands:
            if command.startswith("pip install"):
                continue  # `programs` has it installed
            if command.startswith("cd "):
                self.folder /= command.removeprefix("cd ")
            elif command == "onceward dev":
                self.start()
            else:
                self.run_until(command, step.expected if command == step.commands[-1] else "")

    def run_until(self, command: str, expected: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        command = command.replace(PORT, self.port)
        while True:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
            )
            if done.returncode == 0 and expected in done.stdout:
                return
            if not expected or time.monotonic() > deadline:
                log = self.log.read_text() if self.log.exists() else ""
                raise AssertionError(f"{command} printed {done.stdout}{done.stderr}, not {expected!r}; log: {log}")

    def start(self) -> None:
        with self.log.open("wb") as log:
            self.dev = subprocess.Popen(["onceward", "dev"], cwd=self.folder, env=self.env, stdout=log, stderr=log)
        self.changed = True
        self.wait_for_restart()

    def write(self, step: WriteFile) -> None:
        step.apply(self.folder)
        self.changed = self.changed or step.path.startswith("shop/")

    def wait_for_restart(self) -> None:
        """Wait until `onceward dev` has started the app with the files as they are."""
        if self.dev is None or not self.changed:
            return
        deadline = time.monotonic() + WITHIN_S
        while (starts := self.log.read_text().count("shop is up at")) <= self.starts:
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.dev.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.starts, self.changed = starts, False

    def browse(self, page: Any, action: str) -> None:
        self.wait_for_restart()
        url = f"http://127.0.0.1:{self.port}"
        if action == "live page":
            page.goto(f"{url}/shop")
            page.get_by_text("2 orders, 2 packed").wait_for()
            return
        link = subprocess.run(
            ["onceward", "users", "login-link", "admin@localhost"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        page.goto(next(word for word in link.stdout.split() if word.startswith("http")))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{url}/")
        page.goto(f"{url}/dashboard/dead-letters")
        page.get_by_role("link", name="Replay").first.click()
        page.get_by_label("Why?").fill("a carrier is chosen")
        page.get_by_role("button", name="Replay 1").click()
        page.get_by_text("It has ended.").wait_for()

    def stop(self) -> None:
        if self.dev is not None:
            self.dev.terminate()
            try:
                self.dev.wait(timeout=30)
            finally:
                self.dev.kill()


@contextmanager
def browser_page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(WITHIN_S * 1000)
        yield page
        browser.close()
