"""Do what a new user does: build the wheel, install it in an empty environment, `onceward new shop`, test it, start it.

First the wheel is installed alone: a command that needs a database must say which extra has one. Then the commands of README.md are
counted and timed, from an empty environment to the first webhook that is handled and to the dashboard in a browser.

    python tools/new_project.py                    # as the current user
    python tools/new_project.py --user nobody      # as root: run the project as another user
    python tools/new_project.py --tutorial         # then follow docs/tutorial.md to its end (needs Chromium; two minutes)

Everything happens in a temporary directory. Prints the seconds of each step; exits with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode, urljoin

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
STEP_TIMEOUT_S = 240
SYSTEM_PYTHON = "/usr/bin/python3"
FIRST_WEBHOOK = ("pip install", "onceward new", "onceward dev", "onceward trigger")
"""What a user types between an empty environment and a handled webhook. README.md names each. The dashboard needs no further command:
`onceward dev` prints a link."""
FIRST_WEBHOOK_S = 180
"""More than that on any machine is a defect: it takes about ten seconds when the packages are in a cache."""
CHANGE = "# A change that `onceward dev` must notice.\n"


class Trial:
    """One run in one temporary directory."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.user = user
        self.python = folder / "venv" / "bin" / "python"
        self.project = self.home / "shop"

    def run(self) -> None:
        self.home.mkdir()
        if self.user is not None:
            entry = pwd.getpwnam(self.user)
            os.chown(self.home, entry.pw_uid, entry.pw_gid)
        wheel = self.build()
        self.create_environment()
        self.install(str(wheel))
        self.as_user(self.home, "onceward", "new", "lean")
        self.miss_the_database()
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert [each for each in FIRST_WEBHOOK if each not in readme] == [], "README.md does not name these commands"
        self.python = self.folder / "venv-of-readme" / "bin" / "python"
        began = time.monotonic()
        self.create_environment()
        self.install(f"{wheel}[testing]")
        self.as_user(self.home, "onceward", "new", "shop")
        self.start(began)
        print(self.as_user(self.project, "python", "-m", "pytest", "-q").strip().splitlines()[-1])

    def follow_tutorial(self) -> None:
        """Follow docs/tutorial.md with the installed wheel: nothing of this repository is on its path."""
        from tests.docs.tutorial_reader import TutorialReader

        began = time.monotonic()
        place = self.folder / "tutorial"
        place.mkdir()
        TutorialReader(place, programs=self.python.parent).follow()
        print(f"followed the tutorial in {time.monotonic() - began:.1f} s")

    def build(self) -> Path:
        began = time.monotonic()
        wheels = self.folder / "wheels"
        uv = find_uv()
        build = [uv, "build", "--wheel", "-q"] if uv else [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "."]
        check([*build, "--out-dir" if uv else "--wheel-dir", str(wheels)], cwd=ROOT)
        [wheel] = wheels.glob("*.whl")
        print(f"built {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB, in {time.monotonic() - began:.1f} s")
        return wheel

    def create_environment(self) -> None:
        uv = find_uv()
        # Another user may not be able to enter the folder of this interpreter, but can use the system's.
        interpreter = sys.executable if self.user is None else SYSTEM_PYTHON
        create = [uv, "venv", "-q", "--python", interpreter] if uv else [interpreter, "-m", "venv"]
        check([*create, str(self.python.parents[1])])

    def install(self, what: str) -> None:
        began = time.monotonic()
        uv = find_uv()
        install = (
            [uv, "pip", "install", "--python", str(self.python)] if uv else [str(self.python), "-m", "pip", "install"]
        )
        check([*install, "-q", what])
        files = [
            path for path in (self.python.parents[1] / "lib").rglob("*") if path.is_file() and path.suffix != ".pyc"
        ]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        name = Path(what).name
        print(f"installed {name} in {time.monotonic() - began:.1f} s; the environment has {megabytes:.0f} MB")

    def miss_the_database(self) -> None:
        """A command that needs a database names the extra that has one."""
        done = subprocess.run(
            self.command("onceward", "migrate"),
            cwd=self.home / "lean",
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
            **self.options(),
        )
        assert done.returncode == 4, (done.returncode, done.stderr)
        assert "pip install 'onceward[embedded]'" in done.stderr, done.stderr

    def start(self, empty: float) -> None:
        """Run `onceward dev`, send a webhook, open the dashboard, change a file, send another webhook, and stop. `empty` is when there was
        nothing yet."""
        began = time.monotonic()
        port = free_port()
        with (self.folder / "dev.log").open("w+") as log:
            dev = subprocess.Popen(
                self.command("onceward", "dev", "--port", str(port)),
                cwd=self.project,
                stdout=log,
                stderr=log,
                **self.options(),
            )
            try:
                wait_until_ready(port, log_path=self.folder / "dev.log", starts=1)
                self.pay(port, "o-1")
                handled = time.monotonic()
                open_dashboard(self.folder / "dev.log", shows="payment.received")
                opened = time.monotonic()
                print(
                    f"from an empty environment: first webhook handled after {handled - empty:.1f} s and "
                    f"{len(FIRST_WEBHOOK)} commands ({', '.join(FIRST_WEBHOOK)}), dashboard open after "
                    f"{opened - empty:.1f} s; {handled - began:.1f} s of it since `onceward dev`"
                )
                assert opened - empty < FIRST_WEBHOOK_S
                with (self.project / "shop" / "app.py").open("a") as source:
                    source.write(CHANGE)
                wait_until_ready(port, log_path=self.folder / "dev.log", starts=2)
                self.pay(port, "o-2")
                dev.send_signal(signal.SIGINT)
                assert dev.wait(timeout=60) == 0, f"onceward dev ended with {dev.returncode}"
            except BaseException:
                dev.kill()
                dev.wait()
                print((self.folder / "dev.log").read_text(), file=sys.stderr)
                raise
        print(f"started it, restarted it after a change and paid twice in {time.monotonic() - began:.1f} s")

    def pay(self, port: int, order: str) -> None:
        fields = ["-f", f"data.order={order}", "-f", "data.amount=4200"]
        trigger = ["trigger", "standard", "payment.received", "-s", "checkout", *fields]
        self.as_user(self.project, "onceward", *trigger, ONCEWARD_PORT=str(port))
        query = f"select count(*) from orders where order_id = '{order}' and packed_at is not null"
        deadline = time.monotonic() + 60
        while self.as_user(self.project, "onceward", "db", "psql", "-Atc", query).strip() != "1":
            if time.monotonic() > deadline:
                raise TimeoutError(f"order {order} was not packed within 60 s")

    def as_user(self, folder: Path, *words: str, **env: str) -> str:
        return check(self.command(*words), cwd=folder, **self.options(env))

    def command(self, program: str, *words: str) -> list[str]:
        return [str(self.python.with_name(program)), *words]

    def options(self, env: dict[str, str] | None = None) -> dict[str, object]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ONCEWARD_", "PYTHON"))}
        options: dict[str, object] = {"env": {**clean, "HOME": str(self.home), **(env or {})}}
        if self.user is not None:
            entry = pwd.getpwnam(self.user)
            options |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        return options


def check(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def open_dashboard(log_path: Path, *, shows: str) -> None:
    """Open the link that `onceward dev` printed as a browser does, and the page of webhooks, which must show this one."""
    [link, *_] = re.findall(r"http://\S+/login\S+", log_path.read_text()) or [""]
    assert link, f"onceward dev printed no login link:\n{log_path.read_text()}"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with browser.open(link, timeout=30) as answer:
        page = answer.read().decode()
    if (
        "<form" in page and "/login" in page
    ):  # the link shows a button, so that programs that fetch links do not use it up
        token = re.search(r'name="token" value="([^"]+)"', page)
        assert token is not None, page
        with browser.open(urljoin(link, "/login"), data=urlencode({"token": token[1]}).encode(), timeout=30) as answer:
            answer.read()
    with browser.open(urljoin(link, "/dashboard/events"), timeout=30) as answer:
        page = answer.read().decode()
        assert answer.url.endswith("/dashboard/events"), answer.url
    assert shows in page, page


def find_uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def wait_until_ready(port: int, *, log_path: Path, starts: int) -> None:
    """Wait until the app was started this many times and answers."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if log_path.read_text().count("shop is up at") >= starts:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
                assert answer.status == 200
            return
        time.sleep(0.1)
    raise TimeoutError(f"the app was not ready within 90 s (start {starts})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", help="run the project as this user; only root may do this")
    parser.add_argument("--tutorial", action="store_true", help="also follow docs/tutorial.md; needs Chromium")
    arguments = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="onceward-new-"))
    folder.chmod(0o755)
    try:
        trial = Trial(folder, arguments.user)
        trial.run()
        if arguments.tutorial:
            trial.follow_tutorial()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"done in {time.monotonic() - began:.1f} s")
