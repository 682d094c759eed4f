"""What a command imports decides how fast it starts and how much memory it takes. The tests compare sets of modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from onceward.cli import commands
from onceward.cli.index import CommandIndex
from onceward.cli.session import CommandFeatures, features_here
from onceward.feature import Feature
from onceward.runtime import FEATURES
from tests.child import ROOT

WEB = {"fastapi", "starlette", "uvicorn", "websockets", "jinja2"}
CLIENTS = {"aiohttp", "aiosmtplib", "obstore", "httpx"}
ON_DEMAND = {"cryptography", "jwt", "babel", "rich", "colorama", "opentelemetry", "pydantic_settings", "dotenv"}
DATABASE = {"asyncio", "asyncpg", "uvloop", "pydantic", "structlog", "orjson", "prometheus_client", "psutil"}

RUN = """
import json, os, signal, sys
def loaded():
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} | set(sys.modules))), flush=True)
from onceward.process import commands
was_up = []
def say(text):
    if " is up" in text:
        was_up.append(text)
        loaded()
        os.kill(os.getpid(), signal.SIGINT)
commands.say = say
from onceward.__main__ import main
try:
    main()
finally:
    if not was_up:
        loaded()
"""


def modules_of(directory: Path, *arguments: str, **env: str) -> set[str]:
    """Run a command in a process of its own and return the modules that it has loaded: when it is up, or at its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
    ended = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=directory,
        env={**clean, "PYTHONPATH": str(ROOT), "ONCEWARD_PORT": "0", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1]))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text("from onceward import Onceward\napp = Onceward('shop')\n")
    return tmp_path


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("endpoints", "--help"), ("worker", "--help")])
def test_help_and_version_load_only_the_command_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    loaded = modules_of(tmp_path, *arguments)
    # Modules of commands may import the JSON library, which is small.
    assert loaded & ((WEB | CLIENTS | ON_DEMAND | DATABASE) - {"orjson"}) == set()
    # Only the whole list of commands has those of integrations, which other distributions may bring.
    assert ("onceward.integration" in loaded) is (arguments == ("--help",))
    assert ("importlib.metadata" in loaded) is (arguments == ("--help",))


def test_a_client_command_loads_no_server_and_not_the_app(project: Path, database_url: str) -> None:
    loaded = modules_of(project, "endpoints", "ls", ONCEWARD_DATABASE_URL=database_url, ONCEWARD_APP="shop:app")
    assert loaded & (WEB | CLIENTS | (ON_DEMAND - {"cryptography"})) == set()
    assert loaded & {"shop", "onceward.app", "onceward.db.embedded"} == set()


def test_a_worker_loads_no_web_server_and_no_client_before_it_needs_one(project: Path, database_url: str) -> None:
    loaded = modules_of(project, "worker", "shop:app", ONCEWARD_DATABASE_URL=database_url)
    assert "onceward.work.worker" in loaded
    assert loaded & (WEB | CLIENTS | ON_DEMAND) == set()
    unneeded = {"onceward.web.server", "onceward.web.parts", "onceward.live.node", "onceward.db.embedded"}
    assert loaded & unneeded == set()


def test_a_web_process_loads_no_client_before_it_needs_one(project: Path, database_url: str) -> None:
    loaded = modules_of(project, "serve", "shop:app", ONCEWARD_DATABASE_URL=database_url)
    assert "onceward.web.server" in loaded
    # FastAPI imports OpenTelemetry if it is installed.
    assert loaded & (CLIENTS | (ON_DEMAND - {"opentelemetry"})) == set()
    assert loaded & {"onceward.work.worker", "onceward.messages.service", "onceward.db.embedded"} == set()
    assert loaded & {"psutil", "pydantic.v1"} == set()


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, onceward; print(sorted(name for name in sys.modules if name.startswith('onceward')))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ended.stdout.strip() == "['onceward', 'onceward.lazy']"


# -- the commands of the app -------------------------------------------------------------------------------------------


def weigh() -> None:
    """Weigh the parcels."""
    typer.echo(" ".join(feature.name for feature in features_here() if feature.name == "parcels"))


def register(cli: typer.Typer) -> None:
    cli.command("weigh")(weigh)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> CommandIndex:
    """A command line whose app has one command; `asked` counts how often the app was imported."""
    here = CommandFeatures(FEATURES, "parcels:app")
    asked: list[str] = []

    class App:
        def features(self) -> tuple[Feature, ...]:
            return (Feature(name="parcels", commands=(f"{__name__}:register",)),)

    def load(path: str) -> App:
        asked.append(path)
        return App()

    monkeypatch.setattr("onceward.cli.session.load_app", load)
    built = commands.command_line(here)
    built.asked = asked  # pyright: ignore[reportAttributeAccessIssue]
    return built


def invoke(line: CommandIndex, *arguments: str) -> tuple[int, str]:
    runner = CliRunner()
    with runner.isolation() as streams:
        try:
            line.main(list(arguments), prog_name="onceward")
        except SystemExit as ended:
            code = int(ended.code or 0)
        else:
            code = 0
        return code, streams[0].getvalue().decode() + streams[1].getvalue().decode()


def test_the_app_is_imported_for_its_commands_for_help_and_for_unknown_names(line: CommandIndex) -> None:
    asked: list[str] = line.asked  # pyright: ignore[reportAttributeAccessIssue]
    assert invoke(line, "version")[0] == 0
    assert asked == []
    code, output = invoke(line, "weigh")
    assert (code, output.strip(), asked) == (0, "parcels", ["parcels:app"])


def test_help_lists_the_commands_of_the_app_with_the_whole_first_paragraph(line: CommandIndex) -> None:
    _, output = invoke(line, "--help")
    assert "weigh          Weigh the parcels." in output
    assert "..." not in output.partition("Commands:")[2]  # nothing is cut


def test_an_unknown_command_is_refused_with_a_suggestion(line: CommandIndex) -> None:
    code, output = invoke(line, "wiegh")
    assert code == 2
    assert "No such command 'wiegh'. Did you mean 'weigh'?" in output
    code, output = invoke(line, "endpoints", "lss")
    assert code == 2
    assert "Did you mean 'ls'?" in output
