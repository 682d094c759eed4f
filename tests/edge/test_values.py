"""Values that PostgreSQL cannot store, and values that are wrong by the thousand, over the shipped server's sockets."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from onceward.web.fields import Json
from tests.edge.conftest import Costs
from tests.edge.shipped import Answer, Shipped

NOBODY = str(UUID(int=1))
"""The id of nothing; always the same, because it is part of the names of tests."""

JSON = "content-type: application/json"
FORM = "content-type: application/x-www-form-urlencoded"
NUL = "\x00"
NO_NUL = "\\u0000"
"""Six characters, none of them a NUL."""
PUBLIC = "/api/v1/ticketing/public"


def fields_of(answer: Answer) -> list[str]:
    return [each["field"] for each in answer.json()["errors"]]


def checkout(**fields: Any) -> dict[str, Any]:
    return {"event_id": NOBODY, "email": "a@example.com", "name": "A", **fields}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/me?organization=a%00b", "query.organization"),
        ("/api/v1/events?source=%00", "query.source"),
        ("/login?token=%00", "query.token"),
        ("/portal?token=a%00", "query.token"),
        ("/api/v1/events/%00", "path"),
        ("/?%00=a", "query."),
    ],
)
def test_a_nul_in_the_address_is_refused_by_name(server: Shipped, path: str, field: str) -> None:
    answer = server.get(path)
    assert (answer.status, fields_of(answer)) == (422, [field])


@pytest.mark.parametrize(
    "cookie",
    ["onceward_session=%00", 'onceward_session="a\\000b"', "onceward_organization=a%00b", "onceward_portal=%00"],
)
def test_a_nul_in_a_cookie_of_ours_is_refused_by_name(server: Shipped, cookie: str) -> None:
    answer = server.get("/api/v1/me", f"cookie: {cookie}")
    assert (answer.status, fields_of(answer)) == (422, [f"cookie.{cookie.split('=')[0]}"])


def test_a_cookie_of_somebody_else_may_hold_anything(server: Shipped) -> None:
    assert server.get("/healthz", "cookie: theirs=%00; other=\\000").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", f"{PUBLIC}/checkouts", checkout(name=NUL), "body.name"),
        ("POST", f"{PUBLIC}/checkouts", checkout(email=f"a{NUL}@example.com"), "body.email"),
        ("POST", f"{PUBLIC}/checkouts", checkout(coupon=f"A{NUL}"), "body.coupon"),
        (
            "POST",
            f"/orders/{NOBODY}/tickets/{NOBODY}/transfer",
            {"email": "a@example.com", "name": NUL},
            "body.name",
        ),
        ("POST", "/api/v1/keys", {"name": f"a{NUL}", "scopes": ["viewer"]}, "body.name"),
        ("POST", "/api/v1/publish", {"type": f"order.{NUL}", "data": {}}, "body.type"),
        ("POST", "/api/v1/publish", {"type": "order.paid", "data": {"a": [1, {"b": NUL}]}}, "body.data.a.1.b"),
        ("POST", "/api/v1/publish", {"type": "order.paid", "data": {NUL: 1}}, "body.data"),
        ("POST", "/api/v1/publish", {"type": "order.paid", "data": {"a": "\ud800"}}, "body.data.a"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_nul_in_a_json_body_is_refused_by_name(
    server: Shipped, owner_key: str, method: str, path: str, body: Any, field: str, encoding: str
) -> None:
    answer = server.post(path, json.dumps(body).encode(encoding), JSON, owner_key)
    assert (answer.status, fields_of(answer)) == (422, [field])


def test_a_nul_in_a_form_is_refused_by_name(server: Shipped) -> None:
    parts = b'--b\r\ncontent-disposition: form-data; name="email"\r\n\r\na\x00\r\n--b--\r\n'
    for answer in (
        server.post("/login", urlencode({"email": f"a{NUL}"}).encode(), FORM),
        server.post("/login", parts, "content-type: multipart/form-data; boundary=b"),
    ):
        assert answer.status == 422
        assert b"body.email" in answer.body  # as a page: a person sent it


def test_a_nul_in_a_live_request_is_refused_by_name(server: Shipped) -> None:
    for answer in (
        server.get("/live/sse?query=a%00b"),
        server.get('/live/sse?query=a&arguments={"b":"%5Cu0000"}'),
        server.post("/live/sse", b'{"messages": [{"type": "hello", "token": "\\u0000"}]}'),
    ):
        assert answer.status == 400
        assert "must not contain a NUL character" in answer.json()["error"]
    assert server.post("/live/sse", b'{"messages": 5}').status == 400


def test_text_that_only_looks_like_a_nul_is_accepted(server: Shipped, owner_key: str) -> None:
    made = server.post("/api/v1/keys", json.dumps({"name": NO_NUL, "scopes": ["viewer"]}).encode(), JSON, owner_key)
    assert (made.status, made.json()["key"]["name"]) == (201, NO_NUL)
    data = {"type": "order.paid", "data": {NO_NUL: NO_NUL}}
    answer = server.post("/api/v1/publish", json.dumps(data).encode(), JSON, owner_key)
    assert fields_of(answer) == ["type"]  # which is not declared; the data are well
    assert TypeAdapter(Json).validate_python(data) == data
    with pytest.raises(ValueError, match="NUL"):
        TypeAdapter(Json).validate_python({"a": [NUL]})
    bought = server.post(f"{PUBLIC}/checkouts", json.dumps(checkout(name=NO_NUL, coupon=NO_NUL)).encode(), JSON)
    assert bought.status != 422


# -- many errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{PUBLIC}/events/{NOBODY}/holds", {"places": {f"{number:x}": "x" for number in range(80_000)}}),
        (f"{PUBLIC}/events/{NOBODY}/holds", {"seats": ["x"] * 200_000}),
        (f"{PUBLIC}/events/{NOBODY}/holds/release", {"holds": ["x"] * 200_000}),
        (f"{PUBLIC}/events/{NOBODY}/holds", {"places": {"x" * 900_000: "x"}}),
    ],
    ids=["places", "seats", "holds", "a long name"],
)
def test_a_megabyte_of_errors_is_answered_briefly(server: Shipped, costs: Costs, path: str, body: Any) -> None:
    sent = json.dumps(body, separators=(",", ":")).encode()
    assert 500_000 < len(sent) < 1024 * 1024
    with costs(f"{len(sent) >> 10} KiB of wrong {next(iter(body))}") as cost:
        answer = server.post(path, sent, JSON)
    cost.attacker_gets = f"{answer.status} in {len(answer.body)} bytes"
    assert answer.status == 422
    assert len(answer.body) < 20_000


def test_the_first_errors_are_listed_and_the_others_counted(server: Shipped) -> None:
    places = {f"{number:x}": "x" for number in range(20)}
    answer = server.post(f"{PUBLIC}/events/{NOBODY}/holds", json.dumps({"places": places}).encode(), JSON)
    assert (answer.status, len(fields_of(answer)), answer.json()["errors_not_shown"]) == (422, 20, 20)
    assert answer.json()["detail"].endswith("; and 20 more")


def unlimited(schema: Any, known: dict[str, Any], path: str, seen: tuple[str, ...] = ()) -> list[str]:
    """The lists and objects of a request whose number of entries has no limit, and whose entries can be wrong."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return [] if name in seen else unlimited(known[name], known, path, (*seen, name))
    found: list[str] = []
    entries, members = schema.get("items"), schema.get("additionalProperties")
    if entries and "maxItems" not in schema:
        found.append(path)
    if isinstance(members, dict) and members and "$ref" not in members and "maxProperties" not in schema:
        found.append(path)
    for each in (entries, members, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if isinstance(each, dict):
            found += unlimited(each, known, path, seen)
    for name, each in schema.get("properties", {}).items():
        found += unlimited(each, known, f"{path}.{name}", seen)
    return found


def test_every_list_that_a_client_may_send_has_a_limit(server: Shipped) -> None:
    described = server.get("/api/v1/openapi.json").json()
    found: list[str] = []
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            schemas = [each["schema"] for each in route.get("requestBody", {}).get("content", {}).values()]
            schemas += [each["schema"] for each in route.get("parameters", ())]
            for schema in schemas:
                found += unlimited(schema, described["components"]["schemas"], f"{method} {path}")
    assert found == []


# -- redirects ---------------------------------------------------------------------------------------------------------


def test_a_slash_redirect_does_not_repeat_the_host(server: Shipped) -> None:
    answer = server.ask(b"GET /login/?token=a HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")[0]
    assert (answer.status, answer.headers["location"]) == (307, "/login?token=a")
    answer = server.ask(b"GET //evil.example/ HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")[0]
    assert answer.status == 404
