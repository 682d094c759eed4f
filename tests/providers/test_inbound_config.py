"""A source that cannot work, or would let everyone in, is refused when it is created, with the reason."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS, get_provider
from tests.providers.conftest import WRITTEN

PRIVATE = Ed25519PrivateKey.generate()
WHSK = "whsk_" + base64.b64encode(PRIVATE.private_bytes_raw()).decode()
WHPK = "whpk_" + base64.b64encode(PRIVATE.public_key().public_bytes_raw()).decode()


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as error:
        get_provider("strpe")
    assert "'strpe'" in str(error.value)
    assert "did you mean stripe" in str(error.value)
    assert len(str(error.value)) < 300
    with pytest.raises(ConfigError):
        SourceConfig(provider="strpe")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "stripe", "secrets": ("",)}, "secret 1 of stripe source is empty"),
        ({"provider": "stripe", "secrets": ("a", b"")}, "secret 2 of stripe source is empty"),
        ({"provider": "stripe", "secrets": ("whsec_x\n",)}, "white space"),
        ({"provider": "stripe", "options": {"tolerance": 3}}, "tolerance"),
        ({"provider": "stripe", "tolerance_s": 0}, "tolerance_s is 0"),
        ({"provider": "stripe", "public_url": "hooks.example.com"}, "public_url"),
        ({"provider": "standard", "secrets": ("whsec_",)}, "empty"),
        ({"provider": "standard", "secrets": ("whsec_!!",)}, "not base64"),
        ({"provider": "standard", "secrets": ("whpk_AAAA",)}, "32 bytes"),
        ({"provider": "standard", "secrets": ("whsk_AAAA",)}, "32 or 64 bytes"),
        ({"provider": "daily", "secrets": ("nicht base64",)}, "not base64"),
        ({"provider": "twilio", "secrets": ("t",)}, "public_url of twilio source is missing"),
        ({"provider": "twilio", "public_url": "https://"}, "scheme, host"),
        ({"provider": "twilio", "public_url": "https://a.example:port"}, "public_url"),
        ({"provider": "twilio", "public_url": "https://a.example?x=1"}, "scheme, host"),
        ({"provider": "whatsapp", "options": {"verify_token": ""}}, "verify_token"),
        (
            {"provider": "formbricks", "secrets": ("AAAA",), "options": {"allow_unsigned": True}},
            "allow_unsigned",
        ),
        ({"provider": "none"}, "allow_unsigned"),
        ({"provider": "none", "secrets": ("t",), "options": {"allow_unsigned": True}}, "allow_unsigned"),
        ({"provider": "none", "options": {"allow_unsigned": "yes"}}, "allow_unsigned"),
        ({"provider": "generic"}, "header"),
        ({"provider": "generic", "options": {"header": "no spaces"}}, "header"),
        ({"provider": "generic", "options": {"header": "h", "algorithm": "crc32"}}, "algorithm"),
        (
            {"provider": "generic", "options": {"header": "h", "signed": "fixed"}},
            "option signed is 'fixed': it must contain",
        ),
        ({"provider": "generic", "options": {"header": "h", "signed": "{body}{body}"}}, "option signed"),
        (
            {"provider": "generic", "options": {"header": "h", "signed": "{timestamp}.{body}"}},
            "give the option timestamp",
        ),
        ({"provider": "generic", "options": {"header": "h", "timestamp": "t"}}, "not protect it"),
        ({"provider": "generic", "options": {"header": "h", "signed": "{place}{body}"}}, "{place} is not known"),
        ({"provider": "generic", "options": {"header": "h", "signed": "{url}{body}"}}, "public_url is missing"),
        ({"provider": "generic", "options": {"header": "h", "timestamp_entry": "t="}}, "option separator"),
        (
            {"provider": "generic", "options": {"header": "h", "query": "s"}},
            "one of the options header, query and field",
        ),
        ({"provider": "generic", "options": {"header": ["a b"]}}, "option header is 'a b'"),
        ({"provider": "generic", "options": {"family": "hmack"}}, "option family of generic source is 'hmack'"),
        ({"provider": "generic", "options": {"family": "token", "signed": "{body}"}}, "signed: Extra inputs"),
        ({"provider": "generic", "options": {"family": "token"}}, "header, query and field"),
        ({"provider": "generic", "options": {"family": "jwt", "algorithms": ["HS256", "RS256"]}}, "option algorithms"),
        ({"provider": "generic", "options": {"family": "jwt"}}, "body_claim"),
        ({"provider": "generic", "options": {"family": "public_key", "header": "h", "raw": True}}, "option raw"),
        (
            {"provider": "generic", "options": {"header": "h", "timestamp_unit": "minutes"}},
            "timestamp_unit: Input should be 's', 'ms', 'any', 'iso' or 'http'",
        ),
        ({"provider": "generic", "secrets": ("user",), "options": {"family": "basic"}}, "user:password"),
        (
            {"provider": "generic", "secrets": ("AAAA",), "options": {"family": "public_key", "header": "h"}},
            "not a public key of the kind Ed25519",
        ),
        (
            {"provider": "generic", "secrets": ("xyz",), "options": {"header": "h", "key_encoding": "hex"}},
            "hex",
        ),
    ],
)
def test_a_source_is_checked_when_it_is_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        SourceConfig(**settings)
    assert message in str(error.value)


def test_neither_messages_nor_repr_show_a_secret() -> None:
    with pytest.raises(ConfigError) as error:
        SourceConfig(provider="standard", secrets=("whsec_very!secret",))
    assert "very" not in str(error.value)
    with pytest.raises(ConfigError) as error:
        SourceConfig(provider="whatsapp", options={"verify_token": ["very secret"]})
    assert "very" not in str(error.value)
    config = SourceConfig(provider="whatsapp", secrets=("very-secret",), options={"verify_token": "very-too"})
    assert "very" not in repr(config)


def test_known_providers_say_whether_they_retry_and_generic_sources_have_an_option() -> None:
    retrying = {name for name in WRITTEN if PROVIDERS[name].retries}
    assert retrying == {"brevo", "stripe", "paypal", "formbricks", "whatsapp", "slack", "standard"}
    assert not SourceConfig(provider="github", secrets=("a",)).retries
    assert SourceConfig(provider="generic", options={"header": "h", "retries": True}).retries
    assert not SourceConfig(provider="none", options={"allow_unsigned": True}).retries


def test_public_key_signatures_of_standard_webhooks() -> None:
    provider = get_provider("standard")
    signer = SourceConfig(provider="standard", secrets=(WHSK,))
    headers = provider.sign(signer, b"{}", 1_700_000_000, event_id="m1")
    request = Request("POST", "/", "", headers, b"{}")
    assert headers["webhook-signature"].startswith("v1a,")
    for secrets in ((WHPK,), (WHSK,), ("whsec_AAAA", WHPK)):
        provider.verify(SourceConfig(provider="standard", secrets=secrets), request, 1_700_000_000)
    holder = SourceConfig(provider="standard", secrets=(WHPK,))
    for changed, reason in (
        (Request("POST", "/", "", headers, b"{ }"), "bad_signature"),
        (
            Request("POST", "/", "", headers | {"webhook-signature": "v1,AAAA"}, b"{}"),
            "unsupported_algorithm",
        ),
        (Request("POST", "/", "", headers | {"webhook-timestamp": "1700000001"}, b"{}"), "bad_signature"),
    ):
        with pytest.raises(Rejected) as refused:
            provider.verify(holder, changed, 1_700_000_000)
        assert refused.value.reason == reason
    with pytest.raises(ConfigError, match="only verifies"):
        provider.sign(holder, b"{}", 0)


def test_a_public_key_is_never_taken_for_a_shared_one() -> None:
    """The public key is not secret: an HMAC made with it must not pass."""
    raw = PRIVATE.public_key().public_bytes_raw()
    forger = SourceConfig(provider="standard", secrets=(raw,))
    headers = get_provider("standard").sign(forger, b"{}", 1_700_000_000)
    with pytest.raises(Rejected):
        get_provider("standard").verify(
            SourceConfig(provider="standard", secrets=(WHPK,)),
            Request("POST", "/", "", headers, b"{}"),
            1_700_000_000,
        )


def test_a_shared_token_is_taken_from_header_or_query() -> None:
    provider = get_provider("none")
    in_header = SourceConfig(provider="none", secrets=("old", "new"))
    for value in ("Bearer new", "old"):
        provider.verify(in_header, Request("POST", "/", "", {"authorization": value}, b"{}"), 0)
    in_query = SourceConfig(provider="none", secrets=("new",), options={"token_query": "key"})
    provider.verify(in_query, Request("POST", "/", "key=new", {}, b"{}"), 0)
    for config, request, reason in (
        (in_header, Request("POST", "/", "", {}, b"{}"), "missing_header"),
        (in_header, Request("POST", "/", "", {"authorization": "Bearer "}, b"{}"), "bad_token"),
        (in_query, Request("POST", "/", "key=%C3%A9", {}, b"{}"), "bad_token"),
    ):
        with pytest.raises(Rejected) as refused:
            provider.verify(config, request, 0)
        assert (refused.value.reason, refused.value.status) == (reason, 401)


@pytest.mark.parametrize(
    "options",
    [
        {"header": "X-Sig", "encoding": "base64", "algorithm": "sha512"},
        {"header": "X-Sig", "encoding": "base64url", "algorithm": "sha384", "prefix": "sig="},
        {"header": "X-Sig", "algorithm": "sha1", "key_encoding": "base64"},
        {"header": "X-Sig", "key_encoding": "hex"},
        {
            "header": "X-Sig",
            "separator": ",",
            "prefix": "v1=",
            "timestamp_entry": "T=",
            "signed": "{timestamp},{body}",
        },
        {
            "header": "X-Sig",
            "separator": " ",
            "prefix": "v1,",
            "timestamp": "X-Time",
            "timestamp_unit": "ms",
            "signed_id_header": "X-Id",
            "signed": "{id}.{timestamp}.{body}",
        },
        {"header": "X-Sig", "timestamp": "X-Time", "timestamp_unit": "iso", "signed": "{body}{timestamp}"},
        {"header": "X-Sig", "timestamp": "Date", "timestamp_unit": "http", "signed": "{timestamp}\n{sha256}"},
        {"header": "X-Sig", "signed": "{method} {path} {header:X-Request-Id} {body}"},
        {"header": "X-Sig", "algorithm": "named"},
        {"header": "X-Sig", "algorithm": "md5", "keyed": False, "signed": "{body}{secret}"},
        {"family": "standard"},
        {"family": "standard", "key_encoding": "text", "header_prefixes": ["svix"]},
        {"family": "jwt", "header": "X-Jwt", "prefix": "", "algorithms": ["HS512"], "body_claim": "hash"},
    ],
)
def test_generic_schemes_verify_what_they_sign(options: dict[str, Any]) -> None:
    config = SourceConfig(provider="generic", secrets=("00aa11bb",), options=options)
    provider, body = get_provider("generic"), b'{"id":"1"}'
    headers = provider.sign(config, body, 1_700_000_000, path="/")
    provider.verify(config, Request("POST", "/", "", headers, body), 1_700_000_000)
    with pytest.raises(Rejected):
        provider.verify(config, Request("POST", "/", "", headers, body + b" "), 1_700_000_000)
