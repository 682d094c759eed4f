"""The caller's context: request id, user and tier travel from a request to the work that it causes, and on from there.

A request sets the context, an enqueue stores it with the job or message, and a worker that runs the work has it again.
So log lines, spans and further work of the whole chain name the request. Work without a request has no context.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import orjson
import structlog

from onceward.telemetry.logs import context_of, running
from onceward.telemetry.tracing import (
    LONGEST_TRACE,
    Recorded,
    current_trace,
    current_trace_id,
    is_tracing,
    span,
    trace_id_of,
)

FIELDS = ("request", "user", "tier", "trace")
MOST_CHARACTERS = 200


class CallerContext:
    """The fields of one caller, with their JSON text, which is computed once however many jobs are enqueued."""

    __slots__ = ("_text", "fields")

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = fields
        self._text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = orjson.dumps(dict(self.fields)).decode()
        return self._text


_caller: ContextVar[CallerContext | None] = ContextVar("caller", default=None)


@contextmanager
def calling(**fields: str | None) -> Generator[None]:
    """Add fields to the caller's context, and to every line that is logged inside the block."""
    known = _caller.get()
    added = {name: _storable(name, value) for name, value in fields.items() if value is not None and name in FIELDS}
    token = _caller.set(CallerContext({**(known.fields if known else {}), **added}))
    try:
        with structlog.contextvars.bound_contextvars(**{k: v for k, v in added.items() if k != "trace"}):
            yield
    finally:
        _caller.reset(token)


def traced() -> AbstractContextManager[None]:
    """Add the current span to the caller's context, so that spans of the caused work belong to the same trace."""
    return calling(trace=current_trace()) if is_tracing() else nullcontext()


@contextmanager
def work_span(work: Any, batch: Sequence[Any] = ()) -> Generator[Recorded]:
    """Record the run of a piece of work as a span of the trace of its request.

    The span of a batch belongs to the trace of its first member, and is linked to the traces of the others.
    """
    fields = context_of(work) or {}
    attributes: dict[str, str | int] = {
        "messaging.system": "onceward",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": work.task,
        "messaging.message.id": str(work.id),
        "onceward.kind": work.kind,
        "onceward.attempt": work.attempt,
    }
    attributes |= {f"onceward.{name}": str(value) for name, value in fields.items() if name != "trace"}
    if work.organization is not None:
        attributes["onceward.organization"] = str(work.organization)
    if len(batch) > 1:
        attributes["messaging.batch.message_count"] = len(batch)
    others = ((context_of(each) or {}).get("trace") for each in batch if each is not work)
    with span(
        f"process {work.task}",
        attributes,
        kind="consumer",
        parent=fields.get("trace"),
        links=[trace for trace in others if trace is not None],
    ) as recorded:
        yield recorded


def caller_text() -> str | None:
    """Return the context that new work gets, as JSON: that of the running work, or else that of the request."""
    work = running.get()
    if work is not None:
        context = _context_of_running(work)
        return None if not context else orjson.dumps(context).decode()
    caller = _caller.get()
    return None if caller is None else caller.text


def caller_fields() -> Mapping[str, Any]:
    """Return the context of the running work or request; empty without one."""
    work = running.get()
    if work is not None:
        return _context_of_running(work)
    caller = _caller.get()
    return {} if caller is None else caller.fields


def trace_id() -> str | None:
    """Return the id of the trace that the current code belongs to, for exemplars: that of the span, or else that of the
    running work. None without tracing."""
    if not is_tracing():
        return None
    found = current_trace_id()
    work = running.get()
    if found is None and work is not None:
        found = trace_id_of((context_of(work) or {}).get("trace"))
    return found


def _context_of_running(work: Any) -> Mapping[str, Any]:
    """Return the context of the running work. With tracing, the span of the run is the parent of what it causes."""
    context = context_of(work) or {}
    return {**context, "trace": current_trace()} if is_tracing() else context


def _storable(name: str, value: str) -> str:
    longest = LONGEST_TRACE if name == "trace" else MOST_CHARACTERS
    return value[:longest].encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")
