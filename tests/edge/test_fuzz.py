"""Hypothesis against the shipped server: whatever is sent, nobody gets a 5xx, a traceback or somebody else's answer.

`make test` runs a few examples; `ONCEWARD_TEST_FUZZ=5000 pytest tests/edge/test_fuzz.py` runs many.
"""

from __future__ import annotations

import json
import os
import re
from random import Random
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.edge.shipped import Answer, Shipped, event, request, signature
from tests.edge.test_wire import HOSTILE, OFFERS

EXAMPLES = int(os.environ.get("ONCEWARD_TEST_FUZZ", "40"))
fuzzing = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

# -- the door ----------------------------------------------------------------------------------------------------------

GOOD = [
    request("GET", "/healthz"),
    request("POST", "/nowhere", body=b"abc"),
    request("POST", "/nowhere", "transfer-encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
    request("POST", "/webhooks/stripe", signature(event("evt_fuzz")), body=event("evt_fuzz")),
    request("GET", "/live", *OFFERS["websocket"]),
    request("POST", "/nowhere", *OFFERS["h2c"], body=b"abc"),
    *HOSTILE.values(),
]
SPLICES = st.sampled_from(
    [
        *(b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\r\n\r\n", b"0\r\n\r\n", b"\xff", b"HTTP/1.1", b"%00", b"%"),
        *(
            b"content-length: 5\r\n",
            b"transfer-encoding: chunked\r\n",
            b"upgrade: websocket\r\nconnection: upgrade\r\n",
        ),
        b"GET / HTTP/1.1\r\n\r\n",
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Some requests, good and hostile, with bytes put in, taken out and doubled, cut into segments."""
    sent = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(sent)))
        match draw(st.sampled_from(["put", "take", "double"])):
            case "put":
                sent[at:at] = draw(SPLICES | st.binary(max_size=8))
            case "take":
                del sent[at : at + draw(st.integers(1, 8))]
            case _:
                sent[at:at] = sent[at : at + draw(st.integers(1, 40))]
    cuts = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=3)))
    return [bytes(sent[start:end]) for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


@fuzzing
@given(pieces=conversations())
def test_any_bytes_are_answered_or_the_connection_is_closed(server: Shipped, pieces: list[bytes]) -> None:
    with server.connect() as client:
        try:
            for piece in pieces:
                client.send(piece)
            client.half_close()
        except OSError:
            pass  # closed by the server while we were sending
        answers: list[Answer] = []
        while (answer := client.answer()) is not None:
            answers.append(answer)
            if answer.status == 101:
                break
    begun = len(re.findall(rb"HTTP/|\r\n\r\n", b"".join(pieces))) + 1
    assert len(answers) <= begun
    assert all(each.status < 500 or each.status in (501, 505) for each in answers)


# -- every public route ------------------------------------------------------------------------------------------------

TEXTS = [
    "",
    "a",
    "\0",
    "\\u0000",
    "\ud800",
    "9" * 400,
    "-1",
    "null",
    "../..",
    "%00",
    "٣",
    "1e309",
    "x" * 5000,
    "a@b.cd",
    "'",
    "Ω",
]
NUMBERS = [0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1.5, 1e308, float("nan"), float("inf")]
TIMES = ["2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00", "1e9", "2026-01-01"]
PAGES = [
    "/",
    "/login",
    "/portal",
    "/unsubscribe/{token}",
    "/live/sse",
    "/webhooks/{name}",
    "/events/{id}",
    "/tickets/{code}",
    "/readyz",
]


class Described(dict[str, Any]):
    """What the server says about its routes; too long to be shown with a failing example."""

    def __repr__(self) -> str:
        return "Described"


@pytest.fixture(scope="session")
def described(_server: Shipped) -> Described:
    return Described(_server.get("/api/v1/openapi.json").json())


class Chooser:
    """Makes requests from a seed, so that a failing one can be made again."""

    def __init__(self, seed: int, described: Described) -> None:
        self.random = Random(seed)
        self.described = described

    def anything(self, depth: int = 0) -> Any:
        match self.random.randrange(6 if depth < 3 else 4):
            case 0:
                return self.random.choice([None, True, False])
            case 1:
                return self.random.choice(NUMBERS)
            case 2 | 3:
                return self.random.choice(TEXTS)
            case 4:
                return [self.anything(depth + 1) for _ in range(self.random.randrange(4))]
            case _:
                return {self.random.choice(TEXTS): self.anything(depth + 1) for _ in range(self.random.randrange(4))}

    def value_for(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """Mostly what the schema asks for, so that a request gets further than its first check."""
        if depth > 4 or self.random.random() < 0.15:
            return self.anything()
        if "$ref" in schema:
            return self.value_for(self.described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], depth + 1)
        if choices := schema.get("anyOf"):
            return self.value_for(self.random.choice(choices), depth + 1)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return {name: self.value_for(each, depth + 1) for name, each in schema.get("properties", {}).items()}
            case "array":
                return [self.value_for(schema.get("items", {}), depth + 1) for _ in range(self.random.randrange(3))]
            case "string" if schema.get("format") == "uuid":
                return str(UUID(int=self.random.getrandbits(128)))
            case "string" if schema.get("format") == "date-time":
                return self.random.choice(TIMES)
            case "string":
                return self.random.choice(TEXTS)
            case "integer" | "number":
                return self.random.choice(NUMBERS)
            case _:
                return self.anything()

    def request(self, owner_key: str) -> bytes:
        """A request to some route, with or without a credential."""
        paths = self.described["paths"].items()
        known = [(method.upper(), path, route) for path, methods in paths for method, route in methods.items()]
        pages = [(method, path, {}) for path in PAGES for method in ("GET", "POST", "HEAD", "DELETE")]
        method, path, route = self.random.choice(known + pages)
        query: list[str] = []
        for parameter in route.get("parameters", []):
            value = in_url(self.value_for(parameter["schema"]))
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", value or "x")
            elif parameter["in"] == "query" and self.random.random() < 0.5:
                query.append(f"{parameter['name']}={value}")
        path = re.sub(r"\{[^}]*\}", lambda _: in_url(self.random.choice(TEXTS[:-4])) or "x", path)
        content = route.get("requestBody", {}).get("content", {})
        schema = next(iter(content.values()))["schema"] if content else {}
        body = None if method in ("GET", "HEAD") else json.dumps(self.value_for(schema)).encode()
        headers = ["content-type: application/json", "connection: close"]
        if self.random.random() < 0.7:
            headers.append(owner_key)
        return request(method, path + ("?" + "&".join(query) if query else ""), *headers, body=body)


def in_url(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@fuzzing
@given(seed=st.integers(0, 2**64))
def test_no_request_is_answered_with_an_error_of_ours(
    server: Shipped, owner_key: str, described: Described, seed: int
) -> None:
    sent = Chooser(seed, described).request(owner_key)
    with server.connect() as client:
        answer = client.send(sent).answer()
    assert answer is not None, f"{sent!r} was not answered"
    assert answer.status < 500, f"{sent!r} was answered {answer}"
