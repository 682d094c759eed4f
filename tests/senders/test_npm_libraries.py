"""The senders' own libraries for Node accept what we sign, refuse what was changed, and sign what we accept."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization

from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from onceward.webhooks.sample_secrets import sample_secret_of
from tests.npm import NEEDS_NPM, installed_modules
from tests.senders.world import PUBLIC_URL

pytestmark = NEEDS_NPM

FOLDER: Final = Path(__file__).parent / "npm"
SIGNING: Final = ("clerk", "contentful", "github", "hygraph", "notion", "render", "sanity")
VERIFYING: Final = (*SIGNING, "discord", "turnkey")


class Asked:
    """The requests that the libraries were asked about in one process, and their answers."""

    def __init__(self) -> None:
        self.now = time.time()
        self.requests = {name: self._request(name) for name in VERIFYING}
        cases = {name: self._case(name) for name in VERIFYING}
        command = ["node", "--no-warnings", str(FOLDER / "decide.mjs")]
        done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr[-2000:]
        self.answers: dict[str, Any] = json.loads(done.stdout)

    def config(self, name: str) -> SourceConfig:
        provider = PROVIDERS[name]
        secret = sample_secret_of(provider.verification)
        return SourceConfig(provider=name, secrets=(secret,), public_url=PUBLIC_URL, tolerance_s=provider.tolerance_s)

    def accepts(self, name: str, request: Request) -> bool:
        try:
            PROVIDERS[name].verify(self.config(name), request, time.time())
        except Rejected:
            return False
        return True

    def changed(self, name: str) -> Request:
        request = self.requests[name]
        return replace(request, body=request.body.replace(b"1", b"7"))

    def _request(self, name: str) -> Request:
        provider = PROVIDERS[name]
        type = next(iter(provider.samples))
        body = provider.encode(provider.sample(type))
        return provider.request(self.config(name), body, self.now, type=type, path=f"/webhooks/{name}")

    def _case(self, name: str) -> dict[str, Any]:
        secret = str(self.config(name).secrets[0])
        if secret.startswith("-----BEGIN"):
            key = serialization.load_pem_private_key(secret.encode(), None).public_key()
            secret = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
        request, changed = (
            {"body": each.body.decode(), "headers": dict(each.headers), "path": each.url_path}
            for each in (self.requests[name], self.changed(name))
        )
        return {"request": request, "changed": changed, "secret": secret, "now": int(self.now * 1000)}


@pytest.fixture(scope="module")
def asked() -> Asked:
    installed_modules(FOLDER)
    return Asked()


@pytest.mark.parametrize("name", VERIFYING)
def test_the_library_for_node_decides_as_we_do(asked: Asked, name: str) -> None:
    assert asked.changed(name).body != asked.requests[name].body
    decisions = (asked.accepts(name, asked.requests[name]), asked.accepts(name, asked.changed(name)))
    assert decisions == (True, False)
    assert (asked.answers[name]["accepts"], asked.answers[name]["acceptsChanged"]) == decisions


@pytest.mark.parametrize("name", SIGNING)
def test_what_the_library_for_node_signs_is_accepted(asked: Asked, name: str) -> None:
    request, signed = asked.requests[name], asked.answers[name]["signed"]
    genuine = Request("POST", request.url_path, "", {**request.headers, **signed}, request.body)
    assert signed
    assert asked.accepts(name, genuine)
    assert not asked.accepts(name, replace(genuine, body=asked.changed(name).body))
