"""An integration that Onceward has never heard of, in a distribution of its own: one folder, and every part knows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.integration import IntegrationError, integrations
from tests.child import ROOT

FILES = {
    "__init__.py": "",
    "integration.py": """
from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="parcelpost", title="Parcel Post",
    webhooks="parcelpost.webhooks:SENDER", kept_headers=("x-parcel-depot",),
    account=(AccountField("token", "Token of Parcel Post.", secret=True),), settings="parcelpost.settings:ParcelPostSettings",
    client="parcelpost.client:ParcelPost", channel="parcelpost.channel:CHANNEL", simulator="parcelpost.simulator:ParcelPostSimulator",
)
""",
    "settings.py": """
from onceward.settings import FeatureSettings

class ParcelPostSettings(FeatureSettings):
    depot: str = "south"
""",
    "webhooks.py": """
from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    name="parcelpost", title="Parcel Post", verification=Hmac(header="x-parcel-signature", signed="{body}"),
    events=Events(id="id", type="type"),
)
""",
    "client.py": """
from dataclasses import dataclass
from onceward.services.call import call, judge_failure
from onceward.services.outcome import Accepted

@dataclass(frozen=True)
class ParcelPost:
    http: object
    token: str
    url: str

    @classmethod
    def connect(cls, http, account):
        return cls(http, account["token"], account.url or "https://api.parcelpost.example")

    async def check(self):
        def judge(response): return Accepted() if response.ok else judge_failure(response, repeatable=True)
        return await call(self.http, "GET", f"{self.url}/me", headers={"Authorization": self.token}, judge=judge)
""",
    "channel.py": """
from contextlib import nullcontext
from onceward.messages.channel import ChannelSource
from onceward.services.call import accepted, call, judge_failure, read_json, write_json
from parcelpost.client import ParcelPost

def judge(response):
    return accepted(read_json(response)["card"], {}) if response.ok else judge_failure(response, repeatable=False)

class PostcardChannel:
    name, sender, repeatable_for_s, readable = "sms", "parcelpost", 0.0, False
    def __init__(self, client): self.client = client
    def turn(self): return nullcontext()
    async def send(self, letter):
        card = write_json({"to": letter.to, "text": letter.rendered.text})
        headers = {"Authorization": self.client.token}
        return await call(self.client.http, "POST", f"{self.client.url}/cards", headers=headers, body=card, judge=judge)
    async def aclose(self): ...

def configured(setup):
    account = setup.account("parcelpost")
    return account and PostcardChannel(ParcelPost.connect(setup.client, account))

CHANNEL = ChannelSource(name="sms", configured=configured)
""",
    "simulator.py": """
from aiohttp import web
from onceward.testing.simulators.server import Simulator, answer

class ParcelPostSimulator(Simulator):
    def routes(self): return [web.get("/me", self._serve), web.post("/cards", self._serve)]
    async def _serve(self, request):
        return answer({"card": "card-1"}, status=200 if request.headers.get("Authorization") == "right" else 401)
""",
    "samples/parcel.sent.json": """
{"id": "par_8Kd02nWq7ZtY5mLc", "type": "parcel.sent", "sent_at": "2026-01-01T12:00:00Z", "data": {"weight_g": 450}}
""",
    "README.md": """# Parcel Post

Sends parcels, and postcards as messages.

## Samples
[parcel.sent](samples/parcel.sent.json)
""",
}


def install(folder: Path, value: str = "parcelpost.integration:INTEGRATION") -> None:
    """Write a distribution as an installer leaves it: the package, its metadata and its entry point."""
    for name, text in FILES.items():
        path = folder / "parcelpost" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    metadata = folder / "onceward_parcelpost-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: onceward-parcelpost\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[onceward.integrations]\nparcelpost = {value}\n")


def test_a_made_up_integration_is_known_everywhere(tmp_path: Path, database_url: str) -> None:
    install(tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
    child = subprocess.run(
        [sys.executable, "-m", "tests.feature.made_up_integration", database_url],
        cwd=ROOT,
        env={
            **clean,
            "PYTHONPATH": str(tmp_path),
            "ONCEWARD_PARCELPOST_TOKEN": "right",
            "ONCEWARD_PARCELPOST_DEPOT": "north",
        },
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "parcelpost.nothing:INTEGRATION",
            r"the integration 'parcelpost' \(parcelpost.nothing:INTEGRATION\) cannot be loaded: No module named",
        ),
        (
            "onceward.integration:GROUP",
            "the entry point 'parcelpost' of the group onceward.integrations is not an Integration",
        ),
        (
            "onceward.integrations.github.integration:INTEGRATION",
            "two integrations are named 'github', one of onceward and one of onceward-parcelpost 1.2: uninstall one",
        ),
    ],
)
def test_a_distribution_that_cannot_be_used_is_named(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, value)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(IntegrationError, match=message):
        integrations.__wrapped__()
