"""A load generator in its own process: signed webhooks over keep-alive connections, one pending request on each.

`python -m benchmarks.load '{"port": 1, "path": "/webhooks/stripe", "secret": "..", "connections": 64, ...}'` prints one
line of JSON. Load and server share the machine, so the load generator must be cheap: it asks the kernel which
sockets have an answer and reads and writes them itself, without an event loop or a client library.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import orjson

from benchmarks import families
from benchmarks.bodies import template

BODY = b'{"id":"evt_%b","object":"event","type":"%b","created":%d,"livemode":false,"data":{"object":{"id":"ch_%b","amount":4200,"currency":"eur"}}}'
HEAD = (
    b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: Stripe/1.0\r\ncontent-type: application/json\r\n"
    b"stripe-signature: t=%d,v1=%b\r\ncontent-length: %d\r\n\r\n"
)
MOST_BYTES = 1 << 16
LENGTH = b"content-length: "


Sent = bytes | tuple[bytes, bytes]
"""A request in one piece, or in two: the second piece is the end of the body, which all requests share."""


def request(path: bytes, secret: bytes, type: bytes, id: bytes) -> bytes:
    """Return one signed webhook as the bytes of an HTTP request."""
    now = int(time.time())
    body = BODY % (id, type, now, id)
    signature = hmac.new(secret, b"%d.%b" % (now, body), hashlib.sha256).hexdigest().encode()
    return HEAD % (path, now, signature, len(body)) + body


def large_request(path: bytes, secret: bytes, template: tuple[bytes, bytes], id: bytes) -> Sent:
    """Return one signed webhook of real size. The end of its body is not copied."""
    now = int(time.time())
    before, after = template
    hashed = hmac.new(secret, b"%d.%b%b" % (now, before, id), hashlib.sha256)
    hashed.update(after)
    length = len(before) + len(id) + len(after)
    return HEAD % (path, now, hashed.hexdigest().encode(), length) + before + id, after


class Closed(Exception):
    """The server closed a connection before it answered."""


class Connections:
    """All connections. Each sends its next request when the last one is answered."""

    def __init__(self, port: int, count: int, requests: Iterator[Sent], write: Callable[[int, Any], int]) -> None:
        self._write = write
        self._requests = requests
        self._sockets = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
        self._poll = select.epoll()
        for each in self._sockets:
            each.setblocking(True)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(each.fileno(), select.EPOLLIN)
        self.statuses: list[bytes] = []
        self.times_s: list[float] = []

    def run(self, for_s: float) -> float:
        """Send for `for_s` seconds, wait for pending answers, and return the total time.

        One function with system calls only: at ten thousand requests a second, every further call costs.
        """
        clock, read, write, poll, following = time.perf_counter, os.read, self._write, self._poll.poll, self._requests
        begun: dict[int, bytes] = {}
        began = clock()
        ends = began + for_s
        sent = {each.fileno(): clock() for each in self._sockets if write(each.fileno(), next(following))}
        while sent:
            ready = poll(30)
            if not ready:
                raise TimeoutError(f"{len(sent)} requests were not answered within 30 s")
            for number, _ in ready:
                data = read(number, MOST_BYTES)
                if not data:
                    raise Closed
                if data[-1:] != b"}" or number in begun:
                    data = begun.pop(number, b"") + data
                    if not _is_whole(data):
                        begun[number] = data
                        continue
                now = clock()
                self.statuses.append(data[9:12])
                self.times_s.append(now - sent[number])
                if now < ends and (request := next(following, None)) is not None:
                    sent[number] = now
                    write(number, request)
                else:
                    del sent[number]
        return clock() - began

    def close(self) -> None:
        self._poll.close()
        for each in self._sockets:
            each.close()


def _is_whole(answer: bytes) -> bool:
    """Return whether an answer is complete. Called only if it does not end with `}`, as a flat JSON object does."""
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return False
    at = answer.find(LENGTH, 0, head)
    length = 0 if at < 0 else int(answer[at + len(LENGTH) : answer.index(b"\r", at)])
    return len(answer) >= head + 4 + length


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Send for a while and return the results."""
    path, secret = options["path"].encode(), options["secret"].encode()
    type = options.get("type", "charge.succeeded").encode()
    prefix = options.get("prefix", f"{time.time_ns():x}")
    kind: str | None = options.get("body")
    family: str | None = options.get("family")
    whole = None if kind is None else template(kind, type.decode(), int(time.time()))

    def make(number: int) -> Sent:
        id = f"{prefix}{number:x}".encode()
        if family is not None:
            return families.request(family, id)
        return request(path, secret, type, id) if whole is None else large_request(path, secret, whole, id)

    prepared = [make(number) for number in range(options["prepared"])]

    def fresh() -> Iterator[Sent]:
        yield from prepared
        number = len(prepared)
        while True:
            yield make(number)
            number += 1

    requests = cycle(prepared) if options.get("repeat") else islice(fresh(), options.get("count"))
    write = os.write if whole is None else os.writev
    connections = Connections(options["port"], options["connections"], requests, write)
    began_at = time.time()
    try:
        seconds = connections.run(options["for_s"])
    finally:
        connections.close()
    times = sorted(connections.times_s) or [0.0]
    return {
        "began_at": began_at,
        "rate": len(times) / seconds,
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[int(len(times) * 0.99)] * 1000,
        "statuses": {status.decode(): count for status, count in Counter(connections.statuses).items()},
    }


if __name__ == "__main__":
    sys.stdout.write(orjson.dumps(run(orjson.loads(sys.argv[1]))).decode() + "\n")
