"""Refuse every way out of the machine while a handler is rehearsed.

Our own clients, files and processes announce what they do (`onceward/outside.py`). Everything else must open a socket
or start a process, which Python reports to an audit hook: a call with `requests`, `httpx` or `smtplib` is refused too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, cast

from onceward.outside import OUTSIDE, OutsideCall, OutsideRefused

REFUSED = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"})
STARTED = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"})


BEYOND_PYTHON = (
    *("psycopg", "psycopg2", "MySQLdb", "pymssql", "pyodbc", "oracledb", "grpc", "pycurl", "zmq"),
    *("confluent_kafka", "primp", "curl_cffi"),
)
"""Libraries that open connections in C, which nobody can refuse."""


def unwatched_library() -> str | None:
    """Return a library that this process has loaded and whose connections cannot be refused."""
    return next((name for name in BEYOND_PYTHON if name in sys.modules), None)


class RefusedCalls:
    """Notes the calls that a handler wanted to make, and refuses them, or lets a simulator answer."""

    def __init__(self, *, simulators: Mapping[str, str] | None = None) -> None:
        self.calls: list[OutsideCall] = []
        self._simulators = tuple((simulators or {}).values())
        self._answered = False

    def call(self, call: OutsideCall) -> None:
        """Note a call. Raise `OutsideRefused`, unless it goes to a simulator."""
        self._answered = any(call.target.startswith(url) for url in self._simulators)
        self.calls.append(call)
        if not self._answered:
            raise OutsideRefused(call)

    def note(self, call: OutsideCall) -> None:
        """Note an effect that simply does not happen."""
        self.calls.append(call)

    def connect(self, verb: str, target: str) -> None:
        """Refuse a connection, unless it is the one of a call to a simulator."""
        if self._answered:
            return
        self.call(OutsideCall(verb, target))


@contextmanager
def refusing(calls: RefusedCalls) -> Generator[None]:
    """Refuse the calls of the block, and of the tasks and threads that it starts."""
    _install()
    _guard(asyncio.get_running_loop())
    token = OUTSIDE.set(calls)
    try:
        yield
    finally:
        OUTSIDE.reset(token)


@cache
def _install() -> None:
    """Add the audit hook of this process. A hook cannot be removed: outside a rehearsal it does nothing."""
    sys.addaudithook(_audit)


WAYS = ("create_connection", "create_unix_connection", "create_datagram_endpoint", "sock_connect", "getaddrinfo")
STARTS = ("subprocess_exec", "subprocess_shell")
GUARDED = "_onceward_guarded"


def _guard(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop announce what it opens: uvloop does so in C, where Python has no audit hook."""
    if isinstance(loop, asyncio.BaseEventLoop) or hasattr(loop, GUARDED):
        return
    for name in (*WAYS, *STARTS):
        setattr(loop, name, _announced(getattr(loop, name), "RUN" if name in STARTS else "CONNECT"))
    setattr(loop, GUARDED, True)


def _announced(call: Callable[..., Any], verb: str) -> Callable[..., Any]:
    @wraps(call)
    def announced(*args: Any, **options: Any) -> Any:
        calls = OUTSIDE.get()
        if isinstance(calls, RefusedCalls):
            # The first argument may be a factory of protocols; the target is the first text or number after it.
            target = ":".join(str(each) for each in args if isinstance(each, str | int)) or "a socket"
            calls.connect(verb, target)
        return call(*args, **options)

    return announced


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in REFUSED and event not in STARTED:
        return
    calls = OUTSIDE.get()
    if not isinstance(calls, RefusedCalls):
        return
    if event in STARTED:
        calls.call(OutsideCall("RUN", str(arguments[0])))
    elif event == "socket.getaddrinfo":
        calls.connect("RESOLVE", str(arguments[0]))
    else:
        calls.connect("CONNECT", _address(arguments[1]))


def _address(address: Any) -> str:
    if isinstance(address, tuple):
        return ":".join(str(part) for part in cast("tuple[Any, ...]", address)[:2])
    return str(address)
