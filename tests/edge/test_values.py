"""Values that PostgreSQL cannot store, and values that are wrong by the thousand, over the shipped server's sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from onceward.web.fields import Json
from tests.edge.conftest import Costs
from tests.edge.shipped import Answer, Shipped, request

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


def unlimited_lists(schema: Any) -> bool:
    """Whether the number of entries of a list or object has no limit, and the entries can be wrong."""
    members = schema.get("additionalProperties")
    if isinstance(members, dict) and members and "$ref" not in members and "maxProperties" not in schema:
        return True
    return bool(schema.get("items")) and "maxItems" not in schema


def unlimited_numbers(schema: Any) -> bool:
    """Whether a number may be as small or as large as the caller likes."""
    lower, upper = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    return schema.get("type") in ("number", "integer") and not (lower & schema.keys() and upper & schema.keys())


def fields_with(
    wrong: Callable[[Any], bool], schema: Any, known: dict[str, Any], path: str, seen: tuple[str, ...] = ()
) -> list[str]:
    """The places in a request of which this is true."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return [] if name in seen else fields_with(wrong, known[name], known, path, (*seen, name))
    found = [path] if wrong(schema) else []
    inner = (
        schema.get("items"),
        schema.get("additionalProperties"),
        *schema.get("anyOf", ()),
        *schema.get("allOf", ()),
    )
    for each in inner:
        if isinstance(each, dict):
            found += fields_with(wrong, each, known, path, seen)
    for name, each in schema.get("properties", {}).items():
        found += fields_with(wrong, each, known, f"{path}.{name}", seen)
    return found


@pytest.mark.parametrize("wrong", [unlimited_lists, unlimited_numbers])
def test_every_list_and_number_that_a_client_may_send_has_a_limit(
    server: Shipped, wrong: Callable[[Any], bool]
) -> None:
    described = server.get("/api/v1/openapi.json").json()
    found: list[str] = []
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            schemas = [each["schema"] for each in route.get("requestBody", {}).get("content", {}).values()]
            schemas += [each["schema"] | {"title": each["name"]} for each in route.get("parameters", ())]
            for schema in schemas:
                name = f"{method} {path} {schema.get('title', '')}"
                found += fields_with(wrong, schema, described["components"]["schemas"], name)
    assert found == []


def plausible(schema: Any, known: dict[str, Any]) -> Any:
    """A value that fits the schema of a request."""
    if "$ref" in schema:
        return plausible(known[schema["$ref"].rsplit("/", 1)[1]], known)
    if schema.get("examples"):
        return schema["examples"][0]
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return plausible(schema["anyOf"][0], known)
    match schema.get("type"):
        case "object":
            return {name: plausible(schema["properties"][name], known) for name in schema.get("required", ())}
        case "array":
            return [plausible(schema["items"], known)] if schema.get("minItems") else []
        case "string":
            return TEXTS.get(schema.get("format", ""), TEXTS.get(schema.get("pattern", ""), "words"))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return True


TEXTS = {"uuid": NOBODY, "date-time": "2031-06-21T00:00:00Z", "date": "2031-06-21", "^[A-Z]{3}$": "EUR"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_plausible_requests_of_any_caller_are_answered(
    server: Shipped, owner_key: str, admin_key: str, who: str
) -> None:
    described = server.get("/api/v1/openapi.json").json()
    known = described["components"]["schemas"]
    failed: list[str] = []
    with server.connect("127.0.0.50") as client:
        for path, methods in described["paths"].items():
            for method, route in methods.items():
                body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
                sent = json.dumps(plausible(body, known)).encode() if body else b""
                values = {each["name"]: each["schema"] for each in route.get("parameters", ()) if each["in"] == "path"}
                filled = path.format_map({name: plausible(schema, known) for name, schema in values.items()})
                key = admin_key if who == "admin" else owner_key
                answer = client.send(request(method.upper(), filled, JSON, key, body=sent)).answer()
                known_status = not path.startswith("/api/") or (
                    answer is not None and str(answer.status) in route["responses"]
                )
                if answer is None or answer.status >= 500 or not known_status:
                    failed.append(f"{method} {filled}: {answer and answer.status}")
    assert failed == [], "\n".join(failed)


@pytest.mark.parametrize("method", ["BREW", "PROPFIND", "LOCK", "PUT"])
def test_a_wrong_method_names_all_right_ones_and_adds_no_time_series(server: Shipped, method: str) -> None:
    def series() -> set[str]:
        return {line.rsplit(" ", 1)[0] for line in server.get("/metrics").body.decode().splitlines()}

    before = series()
    answer = server.ask(request(method, "/api/v1/keys", "connection: close"))[0]
    if method != "BREW":  # the parser knows no such method
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert {line for line in series() - before if method in line and method != "PUT"} == set()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_json_does_not_have_is_refused_by_name(server: Shipped, owner_key: str, number: str) -> None:
    for body, field in ((f'{{"overlap_s": {number}}}', "body.overlap_s"), (f'{{"a": [1, {number}]}}', "body.a.1")):
        answer = server.post(f"/api/v1/endpoints/{NOBODY}/secret", body.encode(), JSON, owner_key)
        assert (answer.status, fields_of(answer)) == (422, [field])
    text = server.post("/api/v1/keys", json.dumps({"name": number, "scopes": ["viewer"]}).encode(), JSON, owner_key)
    assert text.status == 201


# -- redirects ---------------------------------------------------------------------------------------------------------


def test_a_slash_redirect_does_not_repeat_the_host(server: Shipped) -> None:
    answer = server.ask(b"GET /login/?token=a HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")[0]
    assert (answer.status, answer.headers["location"]) == (307, "/login?token=a")
    answer = server.ask(b"GET //evil.example/ HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")[0]
    assert answer.status == 404
