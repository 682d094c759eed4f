"""Signing in through a real OpenID Connect provider, built from a package, and what may not get through."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from onceward.db import Database
from onceward.trust.errors import NotAuthenticated
from onceward.trust.organizations import set_disabled, set_member
from onceward.trust.single_sign_on import ENDPOINTS, Provider, ProviderFailed
from tests.trust.conftest import Two
from tests.trust.signing_in import Browser, browser, running

pytestmark = pytest.mark.filterwarnings("ignore")  # of the dependencies of the provider, which runs in this process
START = "/login/single-sign-on"
SECRET = {"oidc_client_secret": SecretStr("secret")}


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package's own dependencies
        from oidc_provider_mock import User, run_server_in_thread

        people = [
            User(sub="1", claims={"email": "Ann@example.org", "email_verified": True}),
            User(sub="2", claims={"email": "bob@example.org", "email_verified": False}),
            User(sub="3", claims={"email": "eve@example.org", "email_verified": True}),
            User(sub="4", claims={"email": "dan@example.org", "email_verified": True, "amr": ["pwd", "mfa"]}),
        ]
        with run_server_in_thread(user_claims=people, require_nonce=True) as server:
            yield f"http://localhost:{server.server_port}"


async def begin(person: Browser, path: str = START) -> str:
    """Return the URL at the provider."""
    async with person.http.get(person.url + path, allow_redirects=False) as reply:
        assert reply.status == 303, await reply.text()
        return reply.headers["Location"]


async def approve(person: Browser, at_provider: str, sub: str) -> str:
    """Sign in at the provider, and return the URL to which it sends the browser back."""
    async with person.http.post(at_provider, data={"sub": sub}, allow_redirects=False) as reply:
        assert reply.status == 302, await reply.text()
        return reply.headers["Location"]


async def sign_in(person: Browser, sub: str, path: str = START) -> None:
    back = await approve(person, await begin(person, path), sub)
    await person.get(back.removeprefix(person.url))


async def test_a_person_signs_in_at_the_provider_and_nobody_else_gets_in(
    database_url: str, db: Database, two: Two, provider: str
) -> None:
    async with db.transaction(role="engine") as tx:
        for name in ("ann", "bob", "dan"):
            await set_member(tx, two.a, f"{name}@example.org", "owner", actor="test")
    settings = {"oidc_issuer": provider, "oidc_client_id": "onceward", "oidc_name": "Example SSO", **SECRET}
    async with running(database_url, **settings) as url, browser(url) as ann, browser(url) as other:
        assert "Sign in with Example SSO" in await ann.get("/login")
        at_provider = await begin(ann)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(at_provider).query).items()}
        assert asked["code_challenge_method"] == "S256"
        assert {"state", "nonce", "code_challenge"} <= asked.keys()
        back = await approve(ann, at_provider, "1")
        await other.get(back.removeprefix(url))
        assert (other.status, "began in another browser" in other.text) == (400, True), (
            "the answer belongs to one browser"
        )
        await ann.get(back.removeprefix(url))
        assert (ann.status, ann.path) == (200, "/")
        await ann.get(back.removeprefix(url))
        assert ann.status == 400, "an answer works once"
        assert "single sign-on" in await ann.get("/dashboard/account")

        # Keys need a new proof after a while; the provider gives it, to the same person only.
        await db.execute("update onceward.sessions set confirmed_at = confirmed_at - interval '2 hours'")
        page = await ann.get("/login/confirm?back=/dashboard/keys")
        assert "Confirm with Example SSO" in page
        confirm = f"{START}?confirm=true&back=/dashboard/keys"
        await sign_in(ann, "4", confirm)
        assert ann.status == 403
        await sign_in(ann, "1", confirm)
        assert ann.path == "/dashboard/keys"
        assert "Create a key" in ann.text
        assert "Confirm that it is you" not in ann.text

        for sub, reason in (("2", "has not verified your address"), ("3", "There is no account for eve@example.org")):
            await sign_in(other, sub)
            assert (other.status, reason in other.text) == (403, True)
        denied = urlsplit(await begin(other)).query
        await other.get(f"{START}/callback?error=access_denied&state={parse_qs(denied)['state'][0]}")
        assert (other.status, "did not sign you in" in other.text) == (403, True)

        # The subject identifies the person from now on: a new address at either side changes nothing.
        await db.execute("update onceward.users set email = 'ann.new@example.org' where email = 'ann@example.org'")
        await sign_in(other, "1")
        assert other.path == "/"
        async with db.transaction(role="engine") as tx:
            await set_disabled(tx, "ann.new@example.org", disabled=True, actor="test")
        await sign_in(other, "1")
        assert other.status == 403
        linked = "select count(*) from onceward.audit_log where action = 'provider_account.linked'"
        assert await db.fetchval(linked) == 1


async def test_a_second_factor_of_the_provider_counts_only_if_its_token_says_so(
    database_url: str, db: Database, two: Two, provider: str
) -> None:
    async with db.transaction(role="engine") as tx:
        for name in ("ann", "dan"):
            await set_member(tx, two.a, f"{name}@example.org", "viewer", actor="test")
    settings = {"oidc_issuer": provider, "oidc_client_id": "onceward", "second_factor": "required", **SECRET}
    async with running(database_url, **settings) as url, browser(url) as ann, browser(url) as dan:
        await sign_in(dan, "4")
        assert dan.path == "/"
        await sign_in(ann, "1")
        assert ann.path == "/dashboard/account", "Ann's token names no second factor, so she must add one here"


async def test_a_token_for_another_sign_on_or_of_another_issuer_is_refused(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProviderFailed, match="https://"):
        Provider("http://sso.example.org", "onceward")
    with pytest.raises(ProviderFailed, match="names the issuer"):
        await Provider(f"{provider}/", "onceward").begin("http://127.0.0.1/x", back="/")
    with pytest.raises(ProviderFailed, match="did not answer"):
        await Provider("http://127.0.0.1:9", "onceward").begin("http://127.0.0.1/x", back="/")
    one = Provider(provider, "onceward", "secret")
    described = await one._call(f"{provider}/.well-known/openid-configuration")  # pyright: ignore[reportPrivateUsage]
    for name in ENDPOINTS:

        async def describe(_url: str, name: str = name) -> dict[str, object]:
            return {**described, name: "http://sso.example.org/x"}

        careless = Provider(provider, "onceward")
        monkeypatch.setattr(careless, "_call", describe)
        with pytest.raises(ProviderFailed, match=f"{name} without https"):
            await careless.begin("http://127.0.0.1/x", back="/")
    _, url = await one.begin("http://127.0.0.1:9/x", back="/")
    other, _ = await one.begin("http://127.0.0.1:9/x", back="/")
    async with browser("http://127.0.0.1:9") as person:
        back = await approve(person, url, "1")
    code = parse_qs(urlsplit(back).query)["code"][0]
    with pytest.raises(NotAuthenticated, match="another sign-on"):
        await one.finish(other, code=code, redirect_uri="http://127.0.0.1:9/x")
