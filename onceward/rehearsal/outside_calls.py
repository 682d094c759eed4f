"""Refuse every way out of the machine while a handler is rehearsed.

Our own clients, files and processes announce what they do (`onceward/outside.py`). Everything else must open a socket
or start a process, which Python reports to an audit hook: a call with `requests`, `httpx` or `smtplib` is refused too.
Threads and executors that a handler starts belong to its rehearsal. In the process of a command, what belongs to
nobody is refused as well (`guarded_process.py`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, cast

from onceward.outside import OUTSIDE, OutsideCall, OutsideRefused
from onceward.rehearsal import guarded_process
from onceward.rehearsal.carried_context import carry_context
from onceward.rehearsal.guarded_process import address_of, name_of
from onceward.rehearsal.simulator_addresses import NO_SIMULATORS, SimulatorAddresses

CONNECTED = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
RESOLVED = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
STARTED = frozenset(
    {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.startfile", "pty.spawn"}
)
WATCHED = CONNECTED | RESOLVED | STARTED


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

    def __init__(self, simulators: SimulatorAddresses = NO_SIMULATORS) -> None:
        self.calls: list[OutsideCall] = []
        self.refused = False
        """Whether a call was refused, so that what follows would depend on its answer."""
        self._simulators = simulators

    def call(self, call: OutsideCall) -> None:
        """Note a call. Raise `OutsideRefused`, unless it goes to a simulator."""
        if call.verb == "RESOLVE" and self._simulators.named(call.target):
            return
        self.calls.append(call)
        if not self._simulators.answer(call.target):
            self.refused = True
            raise OutsideRefused(call)

    def note(self, call: OutsideCall) -> None:
        """Note an effect that simply does not happen."""
        self.calls.append(call)

    def connect(self, verb: str, target: str, address: guarded_process.Address | None = None) -> None:
        """Refuse a connection, unless it is one to a simulator."""
        if not self._simulators.at(address):
            self.call(OutsideCall(verb, target))


@contextmanager
def refusing(calls: RefusedCalls) -> Generator[None]:
    """Refuse the calls of the block, and of the tasks and threads that it starts."""
    install()
    _guard(asyncio.get_running_loop())
    token = OUTSIDE.set(calls)
    try:
        with guarded_process.rehearsing(calls):
            yield
    finally:
        OUTSIDE.reset(token)


@cache
def install() -> None:
    """Add the audit hook of this process. A hook cannot be removed: outside a rehearsal it does nothing."""
    sys.addaudithook(_audit)
    carry_context(lambda: isinstance(OUTSIDE.get(), RefusedCalls), _started)


def _started(what: str) -> None:
    """Refuse a process of which Python has no audit event."""
    _judge("subprocess.Popen", (what,))


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
            # The first argument may be a socket or a factory of protocols. What names the target comes after it.
            named: list[Any] = [each for each in args if isinstance(each, str | int | tuple)]
            first: Any = named[0] if named else None
            whole = cast("tuple[Any, ...]", first if isinstance(first, tuple) else tuple(named))
            calls.connect(verb, ":".join(str(each) for each in whole[:2]) or "a socket", address_of(whole))
        return call(*args, **options)

    return announced


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in WATCHED:
        _judge(event, arguments)


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    calls = OUTSIDE.get()
    if not isinstance(calls, RefusedCalls):
        guard = guarded_process.PROCESS
        if not guard.is_on or guard.allows(event, arguments):
            return
        calls = guard.calls if isinstance(guard.calls, RefusedCalls) else RefusedCalls()
    if event in STARTED:
        calls.call(OutsideCall("RUN", str(arguments[0]) if arguments else event))
    elif event in RESOLVED:
        host = name_of(arguments[0])
        if not _is_number(host):  # nobody is asked for an address
            calls.connect("RESOLVE", host)
    elif arguments[1] is not None:  # None: a message on a socket that is connected, which was judged then
        address = address_of(arguments[1])
        calls.connect("CONNECT", ":".join(str(part) for part in address if part is not None), address)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
