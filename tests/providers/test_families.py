"""Each family verifies what senders publish, and refuses every other request with a reason."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from onceward.webhooks.families import Hmac
from onceward.webhooks.provider import MAX_HEADER_CHARS, Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider
from tests.providers.senders import VECTORS, Vector

GENERIC = get_provider("generic")
NOW = 1_700_000_000.0

every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda each: each.sender)
with_headers = pytest.mark.parametrize(
    "vector", [each for each in VECTORS if each.headers], ids=lambda each: each.sender
)
dated = pytest.mark.parametrize("vector", [each for each in VECTORS if each.now], ids=lambda each: each.sender)


def source(vector: Vector, *secrets: str) -> SourceConfig:
    return SourceConfig(
        provider="generic", secrets=secrets or (vector.secret,), options=vector.options, public_url=vector.url
    )


def request_of(vector: Vector) -> Request:
    return Request("POST", vector.path, vector.query, vector.headers, vector.body)


def refusal(config: SourceConfig, request: Request, now: float) -> str:
    with pytest.raises(Rejected) as refused:
        GENERIC.verify(config, request, now)
    assert 400 <= refused.value.status < 500
    return refused.value.reason


@every_vector
def test_a_published_signature_is_accepted(vector: Vector) -> None:
    GENERIC.verify(source(vector), request_of(vector), vector.now)


@every_vector
def test_one_of_several_secrets_is_enough_and_another_one_is_not(vector: Vector) -> None:
    other = "00" * 32 if vector.options.get("key_encoding") == "hex" else "AAAA" * 8
    GENERIC.verify(source(vector, other, vector.secret), request_of(vector), vector.now)
    assert refusal(source(vector, other), request_of(vector), vector.now) == "bad_signature"
    without = SourceConfig(provider="generic", options=vector.options, public_url=vector.url)
    assert refusal(without, request_of(vector), vector.now) == "no_secret"


@every_vector
def test_a_changed_body_is_refused_if_the_signature_covers_it(vector: Vector) -> None:
    changed = replace(request_of(vector), body=vector.body.replace(b"e", b"f", 1) + b"&x=1")
    if vector.covers_body:
        assert refusal(source(vector), changed, vector.now) == "bad_signature"


@with_headers
def test_every_header_is_needed_and_must_be_short_ascii_and_not_repeated(vector: Vector) -> None:
    config, request = source(vector), request_of(vector)
    signed = [name for name in vector.headers if name != "content-type"]
    for name in signed:

        def with_value(text: str, name: str = name) -> Request:
            return replace(request, headers={**vector.headers, name: text})

        rest = {each: value for each, value in vector.headers.items() if each != name}
        if not (vector.sender.startswith("box") and "signature" in name):
            assert refusal(config, replace(request, headers=rest), vector.now) == "missing_header"
            assert refusal(config, with_value(""), vector.now) == "missing_header"
            assert refusal(config, with_value("x" * (MAX_HEADER_CHARS + 1)), vector.now) == "header_too_large"
        assert refusal(config, with_value("é" * 40), vector.now) == "bad_header"
        # The receiver joins the values of a repeated header by commas. Only signatures may be several.
        headers = config.settings.verification.signature_headers
        if name not in headers or (len(headers) == 1 and "separator" not in vector.options):
            twice = with_value(f"{vector.headers[name]}, {vector.headers[name]}")
            assert refusal(config, twice, vector.now).startswith("bad_")


@dated
@pytest.mark.parametrize("side", [-1, 1])
def test_an_old_request_and_one_from_the_future_are_refused(vector: Vector, side: int) -> None:
    GENERIC.verify(source(vector), request_of(vector), vector.now + side * 300)
    assert refusal(source(vector), request_of(vector), vector.now + side * 301) == "stale_timestamp"


@every_vector
def test_only_a_comparison_in_constant_time_accepts(vector: Vector, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []

    def different(one: bytes | str, other: bytes | str) -> bool:
        compared.append(other)
        return False

    monkeypatch.setattr(hmac, "compare_digest", different)
    # A new source, because the value compiles its comparison.
    assert refusal(source(vector), request_of(vector), vector.now) == "bad_signature"
    assert compared


@settings(max_examples=150, deadline=None)
@given(
    value=st.one_of(st.text("0123456789abcdefghijtv=,; \u00e9\uff11", max_size=90), st.just("")),
    stamp=st.one_of(st.just("1700000000"), st.text("0123456789\uff11 ", max_size=14)),
    genuine=st.booleans(),
    cut=st.integers(-3, 3),
    off=st.sampled_from([0, 300, 301, -301]),
)
@pytest.mark.parametrize(
    "scheme",
    [
        Hmac(header="x-sig", prefix="sha256="),
        Hmac(header="x-sig", prefix="sha256=", prefix_required=False),
        Hmac(header="x-sig", signed="{body}.{timestamp}", timestamp="x-time", encoding="base64"),
        Hmac(header="x-sig", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="),
        Hmac(
            header="x-sig",
            signed="{id}.{timestamp}.{body}",
            separator=" ",
            prefix="v1,",
            timestamp="x-time",
            signed_id_header="x-id",
            algorithm="sha512",
        ),
    ],
    ids=lambda each: each.signed,
)
def test_the_compiled_way_decides_like_the_description(
    scheme: Hmac, value: str, stamp: str, genuine: bool, cut: int, off: int
) -> None:
    config = SourceConfig(provider="stripe", secrets=("old", "new"))
    signed = scheme.sign(replace_keys(config), b"body", NOW, event_id="m1")
    headers = {**signed, "x-time": stamp} if "x-time" in signed else signed
    text = signed["x-sig"] if genuine else value
    headers = {**headers, "x-sig": text[:cut] if cut < 0 else text + value[:cut]}
    request = Request("POST", "/", "", headers, b"body")

    def outcome(verify: Callable[[SourceConfig, Request, float], None]) -> str:
        try:
            verify(config, request, NOW + off)
        except Rejected as refused:
            return refused.reason
        return "accepted"

    assert outcome(scheme.verify) == outcome(scheme.decide)


def replace_keys(config: SourceConfig) -> SourceConfig:
    """The same source, which signs with its second secret."""
    return SourceConfig(provider=config.provider, secrets=config.secrets[1:])


def pem(key: Any) -> tuple[str, str, bytes]:
    """Return a private key as PEM, and its public key as PEM and DER."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key()
    return (
        private.decode(),
        public.public_bytes(serialization.Encoding.PEM, form).decode().strip(),
        public.public_bytes(serialization.Encoding.DER, form),
    )


ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (ED25519, {"signed": "{timestamp}{body}", "timestamp": "X-Time"}),
        (ED25519, {"signed": "{timestamp}|{body}", "timestamp": "X-Time", "encoding": "base64"}),
        (RSA, {"algorithm": "rsa-sha1", "encoding": "base64"}),
        (RSA, {"algorithm": "rsa-sha256", "encoding": "base64"}),
        (RSA, {"algorithm": "rsa-sha512", "encoding": "base64"}),
        (
            CURVE,
            {"algorithm": "ecdsa-sha256", "signed": "{timestamp}{body}", "timestamp": "X-Time", "encoding": "base64"},
        ),
        (CURVE, {"algorithm": "ecdsa-sha256", "raw": True}),
    ],
    ids=lambda value: value.get("algorithm", "ed25519") if isinstance(value, dict) else "",
)
def test_a_public_key_verifies_in_each_of_its_forms_and_never_signs(key: Any, options: dict[str, Any]) -> None:
    options = {"family": "public_key", "header": "X-Sig", **options}
    private, public, der = pem(key)
    signer = SourceConfig(provider="generic", secrets=(private.strip(),), options=options)
    request = Request("POST", "/", "", GENERIC.sign(signer, b"{}", NOW), b"{}")
    forms = [public, base64.b64encode(der).decode()]
    if key is ED25519:
        raw = ED25519.public_key().public_bytes_raw()
        forms += [raw.hex(), base64.b64encode(raw).decode()]
    for form in forms:
        config = SourceConfig(provider="generic", secrets=(form,), options=options)
        GENERIC.verify(config, request, NOW)
        assert refusal(config, replace(request, body=b"{ }"), NOW) == "bad_signature"
        with pytest.raises(ValueError, match="only verifies"):
            GENERIC.sign(config, b"{}", NOW)
    config = SourceConfig(provider="generic", secrets=(public,), options=options)
    for broken in ("00", "AAAA", "!"):
        assert refusal(config, replace(request, headers={**request.headers, "x-sig": broken}), NOW) in (
            "bad_signature",
            "bad_encoding",
        )


JWT: dict[str, Any] = {"family": "jwt", "header": "X-Jwt", "prefix": "", "body_claim": "hash", "issuer": "sender"}


def test_a_token_is_bound_to_its_body_issuer_audience_url_and_time() -> None:
    options = {**JWT, "audience": "us", "url_claim": "url"}
    key = "a shared key with enough bytes for HS256"
    config = SourceConfig(provider="generic", secrets=("other", key), options=options, public_url="https://a.example")
    signer = SourceConfig(provider="generic", secrets=(key,), options=options, public_url="https://a.example")
    headers = GENERIC.sign(signer, b"{}", NOW, path="/in", query="x=1")
    request = Request("POST", "/in", "x=1", headers, b"{}")
    GENERIC.verify(config, request, NOW)
    assert refusal(config, replace(request, body=b"[]"), NOW) == "bad_signature"
    assert refusal(config, replace(request, query="x=2"), NOW) == "bad_signature"
    assert refusal(config, request, NOW + 91) == "stale_timestamp"
    assert refusal(config, request, NOW - 301) == "stale_timestamp"
    for option in ("issuer", "audience"):
        changed = SourceConfig(
            provider="generic", secrets=(key,), options={**options, option: "x"}, public_url="https://a.example"
        )
        assert refusal(changed, request, NOW) == "bad_token"
    only = SourceConfig(provider="generic", secrets=("other",), options=options, public_url="https://a.example")
    assert refusal(only, request, NOW) == "bad_signature"
    assert refusal(config, replace(request, headers={"x-jwt": "a.b"}), NOW) == "bad_header"


def test_the_short_way_to_a_token_decides_like_the_library() -> None:
    """Only the usual form takes the short way. All other forms are decided by PyJWT."""
    import jwt

    from onceward.webhooks.families.json_web_token import _accepted  # pyright: ignore[reportPrivateUsage]

    keys, claims = (b"another key" * 8, b"the key" * 10), {"iat": 1, "n": [1.5]}
    for algorithm in ("HS256", "HS384", "HS512"):
        token = jwt.encode(claims, keys[1], algorithm=algorithm, headers={"kid": "k"})
        assert _accepted(keys, token, (algorithm,)) == claims == jwt.decode(token, keys[1], algorithms=[algorithm])
        head, content, signature = token.split(".")
        others = (f"{head}.{content}.", f"{head}.{content}", f"{head}.{content}.{signature}=", f"{head}..{signature}")
        refused = [
            *others,
            f"{head}.{content}x.{signature}",
            f"{head}x.{content}.{signature}",
            "",
            "..",
            token + "\xe9",
        ]
        assert [each for each in refused if _accepted(keys, each, (algorithm,)) is not None] == []
        assert _accepted(keys[:1], token, (algorithm,)) is None
        assert _accepted(keys, token, ("RS256",)) is None
    unusual = jwt.encode(claims, keys[0], algorithm="HS256", headers={"crit": ["b64"], "b64": True})
    unsigned = jwt.encode(claims, "", algorithm="none")
    assert [_accepted(keys, each, ("HS256",)) for each in (unusual, unsigned)] == [None, None]
    listed = jwt.api_jws.PyJWS().encode(b"[1]", keys[0], algorithm="HS256")
    assert _accepted(keys, listed, ("HS256",)) is None


def test_a_public_key_is_not_accepted_as_the_shared_key_of_a_token() -> None:
    private, public, _ = pem(RSA)
    options = {**JWT, "algorithms": ["RS256"]}
    signer = SourceConfig(provider="generic", secrets=(private.strip(),), options=options)
    config = SourceConfig(provider="generic", secrets=(public,), options=options)
    request = Request("POST", "/", "", GENERIC.sign(signer, b"{}", NOW), b"{}")
    GENERIC.verify(config, request, NOW)
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
    content = f"{header}.{request.headers['x-jwt'].split('.')[1]}"
    mac = base64.urlsafe_b64encode(hmac.digest(public.encode(), content.encode(), "sha256")).rstrip(b"=").decode()
    forged = replace(request, headers={"x-jwt": f"{content}.{mac}"})
    assert refusal(config, forged, NOW) == "unsupported_algorithm"
    with pytest.raises(ValueError, match="which is not secret"):
        SourceConfig(provider="generic", secrets=(public,), options=JWT)


def test_a_token_may_be_in_a_header_the_query_or_the_body() -> None:
    for options, request in (
        ({"header": "X-Gitlab-Token"}, Request("POST", "/", "", {"x-gitlab-token": "t1"}, b"{}")),
        ({"query": "token"}, Request("POST", "/", "token=t1", {}, b"{}")),
        ({"field": "passcode"}, Request("POST", "/", "", {}, b'{"passcode":"t1"}')),
    ):
        config = SourceConfig(provider="generic", secrets=("t0", "t1"), options={"family": "token", **options})
        GENERIC.verify(config, request, 0)
        assert config.settings.verification.signature_headers == ()
        wrong = SourceConfig(provider="generic", secrets=("t2",), options={"family": "token", **options})
        assert refusal(wrong, request, 0) == "bad_token"
        missing = refusal(config, Request("POST", "/", "", {}, b"{}"), 0)
        assert missing in ("missing_header", "bad_token")
    twice = Request("POST", "/", "token=t1&token=t1", {}, b"{}")
    config = SourceConfig(provider="generic", secrets=("t1",), options={"family": "token", "query": "token"})
    assert refusal(config, twice, 0) == "bad_header"


def test_basic_authentication_compares_user_and_password() -> None:
    config = SourceConfig(provider="generic", secrets=("ada:pass:word",), options={"family": "basic"})

    def sent(text: str) -> Request:
        return Request("POST", "/", "", {"authorization": text}, b"{}")

    encoded = base64.b64encode(b"ada:pass:word").decode()
    GENERIC.verify(config, sent(f"Basic {encoded}"), 0)
    GENERIC.verify(config, sent(f"basic {encoded}"), 0)
    for text, reason in (
        (f"Bearer {encoded}", "bad_header"),
        ("Basic !", "bad_encoding"),
        (f"Basic {base64.b64encode(b'ada:pass').decode()}", "bad_token"),
        ("", "missing_header"),
    ):
        assert refusal(config, sent(text), 0) == reason
