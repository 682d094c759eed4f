"""A captured request and its secret name the sender, or the options of a generic source."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from onceward.webhooks.detect import advice, detect, detect_capture
from onceward.webhooks.provider import ConfigError, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.senders.world import PUBLIC_URL, first_type, secret_of, theirs


@pytest.mark.parametrize(
    "name", ["circleci", "zoom", "box", "square", "clerk", "livekit", "gitlab", "shopify", "workos"]
)
def test_a_request_of_a_known_sender_names_it(name: str) -> None:
    found = detect(theirs(name, first_type(name)), secret_of(name), public_url=PUBLIC_URL)
    assert found.matches[0].provider == name


@pytest.mark.parametrize(
    ("headers", "text", "options"),
    [
        ({"x-acme-signature": "sha256={hex}"}, b"{body}", {"prefix": "sha256="}),
        (
            {"x-acme-signature": "t=1767268800,v9={hex}"},
            b"1767268800.{body}",
            {"separator": ",", "prefix": "v9=", "timestamp_entry": "t=", "signed": "{timestamp}.{body}"},
        ),
        (
            {"x-acme-signature": "{hex}", "x-acme-timestamp": "1767268800123"},
            b"1767268800123:{body}",
            {"timestamp": "x-acme-timestamp", "timestamp_unit": "ms", "signed": "{timestamp}:{body}"},
        ),
    ],
)
def test_a_request_of_an_unknown_sender_gives_the_options_of_a_generic_source(
    headers: dict[str, str], text: bytes, options: dict[str, str]
) -> None:
    body = b'{"id":"1","type":"sold"}'
    made = hmac.new(b"s3cret", text.replace(b"{body}", body), hashlib.sha256).hexdigest()
    request = Request("POST", "/", "", {name: value.replace("{hex}", made) for name, value in headers.items()}, body)
    [match, *_] = detect(request, "s3cret").matches
    assert match.provider == "generic"
    assert dict(match.options) == {"header": "x-acme-signature", **options}
    config = SourceConfig(provider="generic", secrets=("s3cret",), options=json.loads(json.dumps(dict(match.options))))
    PROVIDERS["generic"].verify(config, request, 1_767_268_800)
    assert detect(request, "wrong").matches == ()


def test_a_capture_is_read_with_or_without_its_first_line() -> None:
    request = theirs("circleci", "job-completed")
    lines = "".join(f"{name.title()}: {value}\r\n" for name, value in request.headers.items()).encode()
    for text in (lines, b"POST /webhooks/circleci?a=1 HTTP/1.1\r\n" + lines):
        for end in (b"", b"\n"):
            found = detect_capture(text + b"\r\n" + request.body + end, secret_of("circleci"))
            assert advice(found)[0].startswith("circleci verifies this request")
    for broken in (b"", b"no header\n\n{}", b"\n\n{}"):
        with pytest.raises(ConfigError):
            detect_capture(broken, "any")


def test_what_comes_nearest_is_named_with_the_reason_and_without_the_secret() -> None:
    found = detect(theirs("circleci", "job-completed"), "another secret")
    assert found.matches == ()
    assert [(each.provider, each.reason) for each in found.near] == [("circleci", "bad_signature")]
    assert "another secret" not in repr(found)
