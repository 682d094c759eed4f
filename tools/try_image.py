"""Run the image that `deploy/build-image` built as a production would, and say what happened.

    python tools/try_image.py                # on a PostgreSQL of its own, or --database postgresql://postgres:...@127.0.0.1:5432/postgres
    python tools/try_image.py --compose      # the services of deploy/compose.yaml, with their commands and settings, and the apps
    python tools/try_image.py --demo         # the image `onceward-demo`: its embedded PostgreSQL starts, and the start page answers

Needs root, buildah and runc. Every container has a read-only root, user 10001, no capabilities, and the network of this machine. It migrates,
adds a source, starts the processes, receives a signed webhook, waits until it is handled, and stops all with SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
SECRET = "whsec_" + "a" * 32
WAIT_S = 90
APP = """
from onceward import Event, Onceward, Tx

app = Onceward("shop")


@app.on("shop", "charge.succeeded")
async def paid(event: Event, tx: Tx) -> None:
    await tx.fetchval("select 1")
"""


class Image:
    """The mounted image, and containers of it."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.data: Path | None = None
        """The folder for `/data`; without one it is in memory."""
        self.environment = dict(environment)
        self.container = out("buildah", "from", name).strip()
        self.root = out("buildah", "mount", self.container).strip()
        inspected = json.loads(out("buildah", "inspect", "--type", "image", name))
        config = inspected["Docker"]["config"]
        self.variables = dict(each.split("=", 1) for each in config["Env"])
        assert config["User"] == "10001", config["User"]
        (folder / "app").mkdir()
        (folder / "app" / "shop.py").write_text(APP)
        folder.chmod(0o755)

    def start(self, name: str, *command: str, **variables: str) -> subprocess.Popen[str]:
        bundle = self.folder / name
        bundle.mkdir()
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        path = bundle / "config.json"
        spec = json.loads(path.read_text())
        self._restrict(spec)
        spec["process"]["args"] = list(command)
        every = {**self.variables, **self.environment, **variables}
        spec["process"]["env"] = [f"{key}={value}" for key, value in every.items()]
        path.write_text(json.dumps(spec))
        return subprocess.Popen(
            ["runc", "--root", str(self.folder / "runc"), "run", "--bundle", str(bundle), f"try-{name}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def _restrict(self, spec: dict[str, Any]) -> None:
        process, linux = spec["process"], spec["linux"]
        spec["root"] = {"path": self.root, "readonly": True}
        process["terminal"] = False
        process["user"] = {"uid": 10001, "gid": 10001}
        process["noNewPrivileges"] = True
        process["capabilities"] = {kind: [] for kind in process["capabilities"]}
        process["rlimits"] = []
        linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] not in ("network", "cgroup")]
        linux["resources"] = {}
        spec["mounts"] = [each for each in spec["mounts"] if each["destination"] not in ("/sys", "/sys/fs/cgroup")]
        app = {"destination": "/srv", "type": "bind", "source": str(self.folder / "app"), "options": ["bind", "ro"]}
        spec["mounts"].append(app)
        process["cwd"] = "/srv"
        for place in ("/data", "/tmp"):
            mount = {"type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=65536k"]}
            if place == "/data" and self.data is not None:
                mount = {"type": "bind", "source": str(self.data), "options": ["bind", "rw"]}
            spec["mounts"].append({"destination": place, **mount})

    def run(self, name: str, *command: str, fails: bool = False, **variables: str) -> str:
        process = self.start(name, *command, **variables)
        text, _ = process.communicate(timeout=WAIT_S)
        assert (process.returncode != 0) == fails, f"{' '.join(command)} ended with {process.returncode}:\n{text}"
        return text

    def stop(self, name: str, process: subprocess.Popen[str]) -> None:
        began = time.monotonic()
        out("runc", "--root", str(self.folder / "runc"), "kill", f"try-{name}", "TERM")
        text, _ = process.communicate(timeout=60)
        assert process.returncode == 0, f"{name} ended with {process.returncode}:\n{text[-3000:]}"
        print(f"{name} stopped on SIGTERM in {time.monotonic() - began:.1f} s")

    def close(self) -> None:
        subprocess.run(["buildah", "umount", self.container], check=False, stdout=subprocess.DEVNULL)
        subprocess.run(["buildah", "rm", self.container], check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--image", default="onceward")
    parser.add_argument("--database", help="the URL of a superuser; without it a server is started")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--compose", action="store_true")
    chosen.add_argument("--demo", action="store_true")
    options = parser.parse_args()
    if options.demo:
        try_demo()
        return
    with contextlib.ExitStack() as stack:
        database: str = options.database or stack.enter_context(postgres())
        (try_compose if options.compose else try_alone)(options.image, database)


def try_alone(name: str, database: str) -> None:
    """Try the image with an app of one handler."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        environment = {
            "ONCEWARD_DATABASE_URL": database,
            "ONCEWARD_APP": "shop:app",
            "ONCEWARD_SECRET_KEY": "k" * 40,
            "ONCEWARD_ENVIRONMENT": "production",
            "ONCEWARD_AUTO_MIGRATE": "false",
            "ONCEWARD_HOST": "127.0.0.1",
            "ONCEWARD_PORT": str(port),
            "ONCEWARD_HEALTH_PORT": str(port),
            "ONCEWARD_PUBLIC_URL": f"http://127.0.0.1:{port}",
        }
        image = Image(name, Path(folder), environment)
        try:
            use(image, port)
        finally:
            image.close()


class Service(NamedTuple):
    """A service of the compose file that runs our image."""

    command: list[str]
    environment: dict[str, str]


def services_of(compose: Mapping[str, Any], given: Mapping[str, str], database: str) -> dict[str, Service]:
    """Return the services that run our image, with their variables replaced and with the server at `database`."""
    server = urlsplit(database)
    place = f"@{server.hostname}:{server.port}{server.path}"

    def filled(text: object) -> str:
        return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda match: given[match[1]], str(text)).replace(
            "@postgres:5432/postgres", place
        )

    found: dict[str, Service] = {}
    for name, service in compose["services"].items():
        if service["image"] != "onceward":
            continue
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["tmpfs"] == ["/tmp"], name
        assert service["volumes"] == ["data:/data"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        found[name] = Service(service["command"], {key: filled(value) for key, value in service["environment"].items()})
    return found


def try_compose(name: str, database: str) -> None:
    """Do what `docker compose up` does with deploy/compose.yaml, on the network of this machine instead of one of its own.

    So each process gets a port of its own, and the service `postgres` is the server at `database`.
    """
    import yaml

    port = free_port()
    given = {
        "POSTGRES_PASSWORD": urlsplit(database).password or "",
        "RUNTIME_PASSWORD": secrets.token_hex(16),
        "ONCEWARD_SECRET_KEY": secrets.token_hex(20),
        "ONCEWARD_PUBLIC_URL": f"http://127.0.0.1:{port}",
    }
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    services = services_of(compose, given, database)
    assert list(services) == ["migrate", "web", "worker", "scheduler"], list(services)
    with tempfile.TemporaryDirectory() as folder:
        image = Image(name, Path(folder), {})
        image.data = Path(folder) / "data"
        image.data.mkdir()
        os.chown(image.data, 10001, 10001)
        try:
            began = time.monotonic()
            migrate = services.pop("migrate")
            image.run("migrate", *migrate.command, fails=False, **migrate.environment)
            ports = {each: port if each == "web" else free_port() for each in services}
            running = {
                each: image.start(
                    each,
                    *service.command,
                    **service.environment
                    | {"ONCEWARD_HEALTH_PORT": str(ports[each]), "ONCEWARD_PORT": str(ports[each])},
                )
                for each, service in services.items()
            }
            for each in ports.values():
                wait_until_ready(each, tuple(running.values()))
            print(f"compose: migrated, and {', '.join(running)} ready, after {time.monotonic() - began:.1f} s")
            image.environment |= services["web"].environment | {"ONCEWARD_PORT": str(port)}
            image.run(
                "source",
                *("onceward", "sources", "add", "payments-stripe", "--provider", "stripe", "--secret", SECRET),
            )
            image.run("trigger", "onceward", "trigger", "stripe", "charge.succeeded", "--source", "payments-stripe")
            wait_until_handled(image)
            commands = "writing .env, `compose up`, `sources add`, `trigger`"
            print(f"compose: first webhook handled after {time.monotonic() - began:.1f} s and 4 commands ({commands})")
            for each, process in reversed(running.items()):
                image.stop(each, process)
        finally:
            image.close()


@contextlib.contextmanager
def postgres() -> Generator[str]:
    """Run a server of Debian's package, with a password, and yield the URL of its superuser."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise SystemExit("no PostgreSQL is installed: apt install postgresql-15, or pass --database")
    programs, owner = found[-1].parent, pwd.getpwnam("postgres")
    folder = Path(tempfile.mkdtemp(prefix="onceward-try-"))
    try:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        password, port = secrets.token_hex(16), free_port()
        (folder / "password").write_text(password)
        os.chown(folder / "password", owner.pw_uid, owner.pw_gid)

        def run(*command: str | Path) -> None:
            subprocess.run(
                command, cwd=folder, user=owner.pw_uid, group=owner.pw_gid, check=True, stdout=subprocess.DEVNULL
            )

        data = folder / "data"
        run(
            *(programs / "initdb", "--pgdata", data, "--username", "postgres", "--auth", "scram-sha-256"),
            *("--pwfile", folder / "password", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        server = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        run(programs / "pg_ctl", "start", "--wait", "--pgdata", data, "--log", folder / "log", "--options", server)
        try:
            yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
        finally:
            run(programs / "pg_ctl", "stop", "--pgdata", data, "--mode", "fast")
    finally:
        shutil.rmtree(folder)


def try_demo() -> None:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        environment = {"ONCEWARD_HOST": "127.0.0.1", "ONCEWARD_PORT": str(port), "ONCEWARD_HEALTH_PORT": str(port)}
        image = Image("onceward-demo", Path(folder), environment)
        image.data = Path(folder) / "data"
        image.data.mkdir()
        os.chown(image.data, 10001, 10001)
        try:
            check_sboms(Path(image.root))
            began = time.monotonic()
            demo = image.start("demo", "onceward", "up", "onceward_apps.demo:app")
            wait_until_ready(port, (demo,))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/start", timeout=30) as answer:
                assert answer.status == 200
            print(f"the demo answers after {time.monotonic() - began:.1f} s")
            image.stop("demo", demo)
        finally:
            image.close()


def use(image: Image, port: int) -> None:
    began = time.monotonic()
    check_sboms(Path(image.root))
    assert "Read-only file system" in image.run("write", "python", "-c", "open('/x', 'w')", fails=True)
    image.run("migrate", "onceward", "migrate")
    image.run("source", "onceward", "sources", "add", "shop", "--provider", "stripe", "--secret", SECRET)
    health = free_port()
    web, worker = (
        image.start("web", "onceward", "serve"),
        image.start("worker", "onceward", "worker", ONCEWARD_HEALTH_PORT=str(health)),
    )
    for each in (port, health):
        wait_until_ready(each, (web, worker))
    print(f"migrated, and a web process and a worker ready, after {time.monotonic() - began:.1f} s")
    print(image.run("trigger", "onceward", "trigger", "stripe", "charge.succeeded", "--source", "shop").strip())
    wait_until_handled(image)
    print(f"the webhook is handled after {time.monotonic() - began:.1f} s")
    image.stop("worker", worker)
    image.stop("web", web)


def wait_until_handled(image: Image) -> None:
    """Wait until the only event is handled."""
    events: list[dict[str, Any]] = []
    for attempt in range(WAIT_S):
        events = json.loads(image.run(f"events{attempt}", "onceward", "events", "ls", "--json"))
        if [each["status"] for each in events] == ["success"]:
            return
        time.sleep(1)
    raise AssertionError(f"the event was not handled: {events}")


def check_sboms(root: Path) -> None:
    """The image says what it contains, and leaves nothing out."""
    python, debian = (
        {each["name"] for each in json.loads((root / name).read_text())["components"]}
        for name in ("venv/sbom.cdx.json", "usr/share/sbom/debian.cdx.json")
    )
    installed = {
        re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()
        for kind in ("dist", "egg")
        for path in root.glob(f"venv/lib/python3*/site-packages/*.{kind}-info")
    }
    assert python == installed, python ^ installed
    status = (root / "var/lib/dpkg/status").read_text()
    assert debian == set(re.findall(r"^Package: (.+)$", status, re.MULTILINE)), "a package of Debian is missing"
    print(f"the SBOMs have {len(python)} packages of Python and {len(debian)} of Debian")


def wait_until_ready(port: int, processes: tuple[subprocess.Popen[str], ...]) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=4)
        except OSError:
            ended = [each for each in processes if each.poll() is not None]
            if ended or time.monotonic() > deadline:
                text = ended[0].communicate()[0] if ended else ""
                raise AssertionError(f"port {port} is not ready:\n{text[-3000:]}") from None
            time.sleep(0.2)
        else:
            return


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def out(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
