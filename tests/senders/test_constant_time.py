"""Every sender that shares a secret decides by `hmac.compare_digest` alone, and the usual request takes the compiled
way.

`compare_digest` is replaced: if it always says no, nothing genuine is accepted; if it always says yes, a request that
was signed with another secret is. So no other comparison has seen a byte of the secret or of a signature.
"""

from __future__ import annotations

import copy
import dataclasses
import hmac
from typing import Any

import pytest

from onceward.webhooks.families import Hmac, Jwt, PublishedJwt, StandardWebhooks
from onceward.webhooks.families.signed import Signed
from onceward.webhooks.provider import Provider, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from onceward.webhooks.sample_secrets import sample_secret_of
from tests.senders.recipes import FETCHED_BACK
from tests.senders.world import NOW, PUBLIC_URL

OPTIONS = {"generic": {"header": "x-signature"}}
NOTHING_SHARED = {
    "none": "it verifies nothing",
    "paypal": "certificates of PayPal (tests/providers)",
    **dict.fromkeys(FETCHED_BACK, "the request proves nothing"),
}
EACH = pytest.mark.parametrize("name", [name for name in PROVIDERS if name not in NOTHING_SHARED])


def renewed(provider: Provider) -> Provider:
    """Return a copy that compiles its verification again, so that it sees what a test has replaced."""
    made, scheme = copy.copy(provider), getattr(provider, "verification", None)
    if scheme is not None:
        object.__setattr__(made, "verification", dataclasses.replace(scheme))
    return made


def request_of(name: str, which: str) -> tuple[SourceConfig, Request]:
    """Return a source with the secret `which`, and a sample that is signed with it."""
    provider = PROVIDERS[name]
    scheme = getattr(provider, "verification", None)
    secret = provider.sample_secret if scheme is None else sample_secret_of(scheme, which)
    if scheme is None and which == "b":
        secret = secret[:-4] + "".join("AB"[each == "A"] for each in secret[-4:])
    fields = provider.options_model.model_fields
    required = {option: (each.examples or [""])[0] for option, each in fields.items() if each.is_required()}
    config = SourceConfig(
        provider=name, secrets=(secret,), public_url=PUBLIC_URL, options={**required, **OPTIONS.get(name, {})}
    )
    type = next(iter(provider.samples), "webhook")
    payload = provider.sample(type) if provider.samples else {"id": "1", "type": type}
    return config, provider.request(config, provider.encode(payload), NOW, type=type, path=f"/webhooks/{name}")


def accepts(provider: Provider, config: SourceConfig, request: Request) -> bool:
    try:
        provider.verify(dataclasses.replace(config), request, NOW)
    except Rejected:
        return False
    return True


@EACH
def test_only_compare_digest_decides_about_a_shared_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[name]
    (config, genuine), (_, foreign) = request_of(name, "a"), request_of(name, "b")
    assert accepts(provider, config, genuine)
    assert not accepts(provider, config, foreign)
    compared: list[int] = []

    def decide(answer: bool) -> None:
        def compare(a: Any, b: Any) -> bool:
            compared.append(len(a))
            return answer

        monkeypatch.setattr(hmac, "compare_digest", compare)

    decide(True)
    took_foreign = accepts(renewed(provider), config, foreign)
    decide(False)
    took_genuine = accepts(renewed(provider), config, genuine)
    if config.keys[0].startswith(b"-----BEGIN"):
        # Only the sender can sign, and we have a public key: there is nothing to learn from the time that it takes.
        assert not took_foreign
        assert not getattr(getattr(provider, "verification", None), "keyed", False)
    else:
        assert compared
        assert (took_foreign, took_genuine) == (True, False)


@EACH
def test_the_usual_request_takes_the_compiled_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[name]
    scheme: Any = getattr(provider, "verification", None)
    compiled = [scheme] if isinstance(scheme, Hmac) else []
    compiled = list(scheme._schemes) if isinstance(scheme, StandardWebhooks) else compiled  # pyright: ignore[reportPrivateUsage]
    is_compiled = any(each._accepts is not None and type(each) is Hmac for each in compiled)  # pyright: ignore[reportPrivateUsage]
    is_token = (
        isinstance(scheme, Jwt) and not isinstance(scheme, PublishedJwt) and scheme.algorithms[0].startswith("HS")
    )
    config, request = request_of(name, "a")

    def slow(*_: object, **__: object) -> None:
        raise AssertionError("the slow way was taken")

    if is_compiled:
        monkeypatch.setattr(Signed, "decide", slow)
    elif is_token:
        monkeypatch.setattr("jwt.decode", slow)
    assert accepts(provider, config, request)


def test_most_senders_have_a_compiled_way() -> None:
    simple = [
        each for each in (getattr(PROVIDERS[name], "verification", None) for name in PROVIDERS) if type(each) is Hmac
    ]
    assert len([each for each in simple if each._accepts is not None]) > 0.7 * len(simple)  # pyright: ignore[reportPrivateUsage]
