"""Structured log lines on stderr: JSON for machines, colours on a terminal.

What is bound with `bind(...)` stands on every line written by anything called below it, in this task and in
the tasks it starts. Values under keys that name secrets are replaced before a line is written, however deep
they lie.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Literal, cast

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

REDACTED = "[redacted]"
SECRET_KEYS = re.compile(
    r"(secret|passw(or)?d|token|api_?key|authorization|cookie|signature|credential|private_?key|dsn|database_url)",
    re.IGNORECASE,
)
"""A key with one of these words in it never shows its value."""

running: ContextVar[Any] = ContextVar("running", default=None)
"""The piece of work this task is running: something with kind, id, task, attempt and organization.

A context variable that is only looked at when a line is written costs a handler nothing that writes none.
"""

QUIET = ("asyncio", "aiohttp.access", "uvicorn", "botocore", "urllib3")
"""Libraries whose routine lines we write ourselves or have no use for."""


def get_logger(name: str) -> Any:
    """A logger, called as `log.info("job.finished", duration_ms=12)`: the event, then facts by name."""
    return structlog.stdlib.get_logger(name)


def bind(**context: object) -> AbstractContextManager[None]:
    """Put facts (`organization=`, `event=`, `job=`, `request=`) on every line written inside the block."""
    facts = {key: value for key, value in context.items() if value is not None}
    return cast(AbstractContextManager[None], structlog.contextvars.bound_contextvars(**facts))


def name_work(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say which work a line belongs to, unless the line says so itself."""
    work = running.get()
    if work is not None:
        event.setdefault("kind", work.kind)
        event.setdefault("id", work.id)
        event.setdefault("task", work.task)
        event.setdefault("attempt", work.attempt)
        if work.organization is not None:
            event.setdefault("organization", str(work.organization))
    return event


def tell_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An exception as its type and frames. Its message may hold a customer's data and stays out of the log."""
    given: Any = event.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()
    error: Any = cast(tuple[Any, ...], given)[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        for name in ("sqlstate", "constraint_name"):
            if getattr(error, name, None):
                event[name] = getattr(error, name)
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        event["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace what must never be written, in the line itself and in mappings inside it."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if value is not None and not isinstance(value, bool | int) and SECRET_KEYS.search(key):
        return REDACTED
    if isinstance(value, Mapping):
        inner = cast(Mapping[Any, Any], value)
        return {name: _clean(str(name), item) for name, item in inner.items()}
    return value


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at that moment: it may be replaced after logging was set up."""

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
    """Set up logging for the process, the lines of other libraries included. May be called again."""
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
    # Its pool warns of every connection it cannot make, with a stack: `database_away` has said so.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)


def _rendering(*, pretty: bool) -> list[structlog.typing.Processor]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if pretty:
        # Plain: the richer formatter prints local variables, and with them secrets.
        formatter = structlog.dev.plain_traceback
        return [strip, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=formatter)]
    return [strip, tell_exception, structlog.processors.JSONRenderer(_json)]


def _json(value: Any, **_options: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
