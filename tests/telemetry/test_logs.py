"""Log lines: structured, in context, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from onceward.telemetry import bind, configure_logging, get_logger
from onceward.telemetry.logs import shorten


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[list[dict[str, object]]]:
    """Call `read()` on the result to get what was written as JSON since the last call."""
    root = logging.getLogger()
    level, config = root.level, structlog.get_config()
    configure_logging(format="json", service="shop", environment="test", version="1.2")
    [ours] = root.handlers

    class Lines(list[dict[str, object]]):
        def read(self) -> list[dict[str, object]]:
            self[:] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
            return self

    yield Lines()
    logging.getLogger().removeHandler(ours)
    root.setLevel(level)
    structlog.configure(**config)


def test_every_line_says_who_wrote_it(lines) -> None:
    get_logger("x").info("started", port=1)
    [line] = lines.read()
    assert {"service": "shop", "environment": "test", "version": "1.2"}.items() <= line.items()
    assert (line["event"], line["level"], line["port"], line["logger"]) == ("started", "info", 1, "x")


def test_log_context_is_inherited_by_called_code_only(lines) -> None:
    log = get_logger("x")

    async def below() -> None:
        log.info("below")

    async def main() -> None:
        with bind(organization="o1"), bind(job=7):
            await asyncio.gather(below(), asyncio.create_task(below()))
        log.info("after")

    asyncio.run(main())
    first, second, after = lines.read()
    assert first["organization"] == second["organization"] == "o1"
    assert first["job"] == second["job"] == 7
    assert "organization" not in after


@pytest.mark.parametrize("key", ["password", "api_key", "Authorization", "access_token", "webhook_secret", "cookie"])
def test_values_under_names_of_secrets_are_not_written(lines, key: str) -> None:
    get_logger("x").info("called", **{key: "hunter2"}, headers={key: "hunter2", "accept": "json"})
    [line] = lines.read()
    assert "hunter2" not in json.dumps(line)
    assert line["headers"]["accept"] == "json"


def test_lines_of_other_libraries_have_the_same_form(lines) -> None:
    with bind(request="r1"):
        logging.getLogger("library").warning("low on %s", "memory")
    [line] = lines.read()
    assert (line["event"], line["request"], line["service"]) == ("low on memory", "r1", "shop")


def test_exceptions_are_their_type_and_frames_never_their_message(lines) -> None:
    try:
        raise ValueError("anna@example.com is not a number")
    except ValueError:
        get_logger("x").exception("failed")
    [line] = lines.read()
    assert line["error"] == "ValueError"
    assert "test_logs.py" in line["frames"][-1]
    assert "anna" not in str(line)


def test_less_severe_lines_are_left_out(lines) -> None:
    configure_logging(level="warning", format="json")
    get_logger("x").info("chatter")
    assert lines.read() == []


def test_a_terminal_does_not_show_the_links_of_the_audit_chain(capsys: pytest.CaptureFixture[str], lines) -> None:
    get_logger("x").info("audit.sealed", head="1:00")
    assert [line["event"] for line in lines.read()] == ["audit.sealed"]
    root = logging.getLogger()
    before = root.handlers[:]
    configure_logging(format="pretty")
    get_logger("x").info("audit.sealed", head="1:00")
    get_logger("x").info("started")
    shown = capsys.readouterr().err
    root.handlers[:] = before
    assert "started" in shown
    assert "audit.sealed" not in shown


def test_a_line_on_a_terminal_is_short_and_an_error_is_complete() -> None:
    moment = "2026-01-02T03:04:05.678901Z"
    line = {"timestamp": moment, "level": "info", "event": "worker.started", "logger": "onceward.work", "id": 7}
    values = {"queues": ["a-long-queue-name"] * 9, "text": "x" * 99, "url": "http://127.0.0.1/" + "x" * 99}
    short = shorten(None, "info", {**line, **values})
    assert re.fullmatch(r"\d\d:\d\d:05", short.pop("timestamp"))
    assert short == {
        "level": "info",
        "event": "worker.started",
        "id": 7,
        "queues": "9 items",
        "text": "x" * 59 + "…",
        "url": values["url"],
    }
    assert shorten(None, "error", {**line, **values, "level": "error"})["text"] == "x" * 99


UNCONFIGURED = """
import structlog
from onceward.telemetry import get_logger

def fail(local):
    raise RuntimeError("broken")

for log in (get_logger("x"), structlog.get_logger("x")):
    try:
        fail("".join(("hun", "ter2")))
    except RuntimeError:
        log.exception("it.failed")
"""


@pytest.mark.parametrize("color", [{"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}])
def test_a_traceback_has_no_local_variables_when_nobody_configured_logging(color: dict[str, str]) -> None:
    pytest.importorskip("rich")
    ended = subprocess.run(
        [sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=True, env={**os.environ, **color}
    )
    written = ended.stdout + ended.stderr
    assert written.count("RuntimeError: broken") == 2
    assert "hunter2" not in written
