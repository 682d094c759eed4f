"""A load generator in a process of its own: signed webhooks over kept-alive connections, one outstanding on each.

`python -m onceward.bench.load '{"port": 1, "path": "/webhooks/stripe", "secret": "..", "connections": 64, ...}'` prints one
line of JSON. It writes sockets itself, because a client library would be the bottleneck.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, cast

import orjson
import uvloop

BODY = b'{"id":"evt_%b","object":"event","type":"%b","created":%d,"livemode":false,"data":{"object":{"id":"ch_%b","amount":4200,"currency":"eur"}}}'
HEAD = (
    b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: Stripe/1.0\r\ncontent-type: application/json\r\n"
    b"stripe-signature: t=%d,v1=%b\r\ncontent-length: %d\r\n\r\n"
)


def request(path: bytes, secret: bytes, type: bytes, id: bytes) -> bytes:
    """One signed webhook as bytes on the wire."""
    now = int(time.time())
    body = BODY % (id, type, now, id)
    signature = hmac.new(secret, b"%d.%b" % (now, body), hashlib.sha256).hexdigest().encode()
    return HEAD % (path, now, signature, len(body)) + body


@dataclass(slots=True)
class Tally:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    times_s: list[float] = field(default_factory=list[float])


class Connection(asyncio.Protocol):
    """Sends the next request as soon as the last one is answered."""

    def __init__(self, requests: Any, tally: Tally, ends: float) -> None:
        self._requests = requests
        self._tally = tally
        self._ends = ends
        self._transport: asyncio.Transport | None = None
        self._sent = 0.0
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        now = time.perf_counter()
        if now >= self._ends:
            self._transport.close()
            return
        self._sent = now
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        at = head.find(b"content-length: ")
        length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) < length:
            return
        self._buffer = b""
        self._tally.statuses[int(head[9:12])] += 1
        self._tally.times_s.append(time.perf_counter() - self._sent)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def run(wanted: dict[str, Any]) -> dict[str, Any]:
    """Send for a while and say how it went."""
    path, secret, type = (
        wanted["path"].encode(),
        wanted["secret"].encode(),
        wanted.get("type", "charge.succeeded").encode(),
    )
    prefix = wanted.get("prefix", f"{time.time_ns():x}")
    made = [request(path, secret, type, f"{prefix}{number:x}".encode()) for number in range(wanted["prepared"])]

    def fresh() -> Any:
        yield from made
        number = len(made)
        while True:
            yield request(path, secret, type, f"{prefix}{number:x}".encode())
            number += 1

    requests = cycle(made) if wanted.get("repeat") else fresh()
    tally = Tally()
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    ends = began + wanted["for_s"]
    connections: list[Connection] = []
    for _ in range(wanted["connections"]):
        _, protocol = await loop.create_connection(
            lambda: Connection(requests, tally, ends), "127.0.0.1", wanted["port"]
        )
        connections.append(protocol)
    await asyncio.gather(*(each.done for each in connections))
    seconds = time.perf_counter() - began
    times = sorted(tally.times_s) or [0.0]
    return {
        "rate": sum(tally.statuses.values()) / seconds,
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[int(len(times) * 0.99)] * 1000,
        "statuses": {str(status): count for status, count in tally.statuses.items()},
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(orjson.dumps(runner.run(run(orjson.loads(sys.argv[1])))).decode() + "\n")
