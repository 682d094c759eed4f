"""Structured log lines on stderr: JSON for machines, colours on a terminal.

Fields bound with `bind(...)` appear on every line that is logged inside the block, in this task and in the tasks that
it starts. Values whose key names a secret are replaced before a line is written, also in nested mappings.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, cast

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

REDACTED = "[redacted]"
MOST_CHARACTERS = 60
"""The maximum length of a value on a terminal, except of a URL and of an error."""
SECRET_KEYS = re.compile(
    r"(secret|passw(or)?d|token|api_?key|authorization|cookie|signature|credential|private_?key|dsn|database_url)",
    re.IGNORECASE,
)
"""The value of a key that contains one of these words is never logged."""

running: ContextVar[Any] = ContextVar("running", default=None)
"""The work that this task is running: an object with kind, id, task, attempt and organization.

Only a written line reads the variable, so it costs nothing in a handler that logs nothing.
"""

QUIET = ("asyncio", "aiohttp.access", "uvicorn", "botocore", "urllib3")
"""Libraries whose routine log lines we do not need."""


ONLY_IN_FILES = frozenset({"audit.sealed", "audit.anchored"})
"""Events that are worth keeping, but that nobody reads as they happen: a terminal does not show them."""


def never_render_locals() -> None:
    """Make structlog write plain tracebacks while nobody has configured it.

    Its own default prints the local variables of each frame if rich is installed. They may contain secrets, and
    printing large ones takes many seconds.
    """
    if structlog.is_configured():
        return
    for processor in structlog.get_config()["processors"]:
        if isinstance(processor, structlog.dev.ConsoleRenderer):
            processor.exception_formatter = structlog.dev.plain_traceback


never_render_locals()


def get_logger(name: str) -> Any:
    """Return a logger for calls such as `log.info("job.finished", duration_ms=12)`: the event, then its fields."""
    return structlog.stdlib.get_logger(name)


def bind(**context: object) -> AbstractContextManager[None]:
    """Add fields (`organization=`, `event=`, `job=`, `request=`) to every line that is logged inside the block."""
    fields = {key: value for key, value in context.items() if value is not None}
    return cast(AbstractContextManager[None], structlog.contextvars.bound_contextvars(**fields))


def name_work(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the fields of the running work to a line, unless the line has them already."""
    work = running.get()
    if work is not None:
        event.setdefault("kind", work.kind)
        event.setdefault("id", work.id)
        event.setdefault("task", work.task)
        event.setdefault("attempt", work.attempt)
        if work.organization is not None:
            event.setdefault("organization", str(work.organization))
        for name, value in (context_of(work) or {}).items():
            if name != "trace":
                event.setdefault(name, value)
    return event


def context_of(work: Any) -> Mapping[str, Any] | None:
    """Return the context of the request that caused this work: of a job, or of the loaded message."""
    return getattr(work, "context", None) or getattr(getattr(work, "body", None), "context", None)


def describe_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Log an exception as its type and frames, without its message, which may contain a customer's data."""
    exc_info: Any = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    error: Any = cast(tuple[Any, ...], exc_info)[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        for name in ("sqlstate", "constraint_name"):
            if getattr(error, name, None):
                event[name] = getattr(error, name)
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        event["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def drop_on_terminal(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Skip the lines that are written only for a log that is kept."""
    if event.get("event") in ONLY_IN_FILES:
        raise structlog.DropEvent
    return event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace secret values in the line and in its nested mappings."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if value is not None and not isinstance(value, bool | int) and SECRET_KEYS.search(key):
        return REDACTED
    if isinstance(value, Mapping):
        inner = cast(Mapping[Any, Any], value)
        return {name: _clean(str(name), item) for name, item in inner.items()}
    return value


class _Stderr(logging.Handler):
    """Writes to the current `sys.stderr`, which may be replaced after logging was configured."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def configure_logging(
    *,
    level: str = "info",
    format: Literal["auto", "json", "pretty"] = "auto",
    service: str = "onceward",
    environment: str = "development",
    version: str = "",
) -> None:
    """Configure logging for the process, including other libraries. It may be called again."""
    pretty = format == "pretty" or (format == "auto" and sys.stderr.isatty())
    identity = {"service": service, "environment": environment, "version": version}

    def identify(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return event if pretty else {**identity, **event}

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        name_work,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        identify,
        redact,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *((drop_on_terminal,) if pretty else ()),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _Stderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(pretty=pretty))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # asyncpg logs a stack for every failed connection; our own pool already logs the outage once.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)


def _rendering(*, pretty: bool) -> list[structlog.typing.Processor]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if pretty:
        # The plain formatter: the rich one prints local variables, which may contain secrets.
        formatter = structlog.dev.plain_traceback
        return [
            strip,
            shorten,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=formatter),
        ]
    return [strip, describe_exception, structlog.processors.JSONRenderer(_json)]


def shorten(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make a line fit a terminal: local time without date, no logger's name unless something is wrong, short values."""
    with contextlib.suppress(TypeError, ValueError):
        event["timestamp"] = datetime.fromisoformat(event["timestamp"]).astimezone().strftime("%H:%M:%S")
    if event.get("level") in ("debug", "info"):
        event.pop("logger", None)
        for name, value in event.items():
            text = str(value)
            if name != "event" and len(text) > MOST_CHARACTERS and "://" not in text:
                is_list = isinstance(value, list | tuple)
                event[name] = f"{len(cast(list[Any], value))} items" if is_list else text[: MOST_CHARACTERS - 1] + "…"
    return event


def _json(value: Any, **_options: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
