"""The commands in the documentation work as they are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.feature import WEB
from onceward.inbox.sources import NewSource, add
from onceward.integration import integrations
from onceward.integrations.paypal.simulator import simulated_source
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.webhooks.registry import PROVIDERS
from onceward_apps import all as bundled
from onceward_apps.ticketing.demo import TicketingDemo
from tests.docs.documented_commands import CommandTree, DocumentedCommand, documented_commands, in_module, in_page

COMMANDS = documented_commands()
NAMES = set(PROVIDERS) - set(integrations().senders) | {"circleci"}
"""The providers whose pages are written by hand, and one whose page is made of its declaration."""
TRIGGERS = [
    command
    for command in COMMANDS
    if command.words[0] == "trigger"
    and command.words[1] in NAMES
    and command.where != "docs/tutorial.md"  # its source belongs to its own app: test_tutorial.py runs these commands
]
OPTIONS = {"whatsapp": {"verify_token": "agreed"}, "generic": {"header": "X-Signature"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_every_documented_command_parses() -> None:
    tree = CommandTree()
    problems = [f"{command} ({problem})" for command in COMMANDS if (problem := tree.problem_of(command))]
    assert problems == []


def test_the_documentation_has_commands_to_check() -> None:
    assert len(COMMANDS) > 100
    assert {command.words[1] for command in TRIGGERS} == NAMES


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\nonceward trigger stripe charge.succeeded amount=5\n```\n", "unexpected extra argument"),
        ("```\nonceward trigger stripe\n```\n", "Missing"),
        ("```\nA=1 onceward up shop:app && onceward endpoints tset ID  # try it\n```\n", "No such command"),
        ("Run `onceward jobs ls|shew`.", "No such command"),
        ("Run `onceward events replay ID --raeson x`.", "No such option"),
        ("Run `onceward cron ls | run NAME [--strikt]`.", "No such option"),
    ],
)
def test_a_wrong_command_in_a_page_is_found(text: str, problem: str) -> None:
    tree = CommandTree()
    problems = [found for command in in_page(text, "page.md") if (found := tree.problem_of(command))]
    assert len(problems) == 1
    assert problem.lower() in problems[0].lower()


def test_a_wrong_command_in_a_message_of_the_code_is_found() -> None:
    source = 'def f(name):\n    raise ValueError(f"run `onceward sources start {name} --now`")\n'
    [command] = in_module(source, "module.py")
    assert command == DocumentedCommand("module.py", ("sources", "start", "VALUE", "--now"), complete=False)
    assert "No such command" in str(CommandTree().problem_of(command))


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """A command configures the logging of its process, which here is the one of the tests."""
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**config)


@pytest.fixture
async def demo(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored_logging: None
) -> AsyncIterator[Process]:
    """The demo without its buyers, with a source for each provider, and an environment in which commands find it."""

    def without_buyers(context: Context) -> TicketingDemo:
        return TicketingDemo(context, crowd=False)

    app = Onceward("demo")
    app.include(bundled.app)
    app.part("ticketing demo", without_buyers, roles=WEB)
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8)
    process = Process(app, settings, FEATURES)
    await process.start()
    try:
        assert process.web is not None
        assert process.context is not None
        async with process.database.transaction(role="engine") as tx:
            for name in sorted(NAMES):
                await add(tx, process.context.box, source_of(name, process.web.url), actor="test")
        monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
        monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
        monkeypatch.setenv("ONCEWARD_PORT", process.web.url.rsplit(":", 1)[1])
        yield process
    finally:
        await process.stop()


def source_of(provider: str, url: str) -> NewSource:
    """Return a source that is named like its provider, as the pages tell the reader to add it."""
    if provider == "paypal":
        simulated = simulated_source()
        [key] = simulated.secrets
        pem = key.decode() if isinstance(key, bytes) else key
        return NewSource(name="paypal", provider="paypal", secrets=(pem.strip(),), options=simulated.options)
    return NewSource(
        name=provider,
        provider=provider,
        secrets=(SECRET.removeprefix("whsec_") if provider == "daily" else SECRET,),
        options=OPTIONS.get(provider, {}),
        public_url=url if provider == "twilio" else None,
    )


async def test_every_documented_trigger_is_accepted_by_a_running_app(
    demo: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = CommandTree(with_callbacks=True)
    failed: list[str] = []
    for command in TRIGGERS:
        code = await asyncio.to_thread(tree.run, command)
        if code != 0:
            failed.append(f"{command} exits with {code}: {capsys.readouterr()}")
    assert failed == []
    received = await demo.database.fetch(
        "select distinct s.name from onceward.webhook_events join onceward.sources s using (webhook_id)"
    )
    assert {row["name"] for row in received} == {*NAMES, "payments-stripe"}
