"""The child process of `test_made_up_integration`: a distribution on the path adds an integration, and every part knows it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from typer.testing import CliRunner

from onceward import Engine, Onceward
from onceward.cli.commands import build
from onceward.db import Database
from onceward.doctor.examination import examine
from onceward.http import GuardedClient, ServiceClient
from onceward.inbox.signed_samples import compose
from onceward.messages import Recipient, Sender
from onceward.messages.accounts import configured_channels
from onceward.messages.channel import ChannelSetup
from onceward.runtime import FEATURES
from onceward.services import Accepted, Services, service_settings
from onceward.settings import Settings, all_settings, unknown_names
from onceward.testing import until
from onceward.testing.simulators import Simulators
from onceward.trust.organization_secrets import check_name
from onceward.work import Worker, WorkerOptions
from tests.inbox.conftest import Office, call
from tests.messages.conftest import TEMPLATES


def command(*args: str) -> Any:
    result = CliRunner().invoke(build(FEATURES), list(args))
    assert result.exit_code == 0, (args, result.output, result.exception)
    return result.stdout


def commands() -> None:
    """The list, the settings and the check of an account, as a user types them."""
    rows = {row["name"]: row for row in json.loads(command("integrations", "ls", "--json"))}
    assert rows["parcelpost"] == {
        "name": "parcelpost",
        "title": "Parcel Post",
        "capabilities": ["webhooks", "client", "channel", "simulator"],
        "from": "onceward-parcelpost 1.2",
        "configured": True,
    }
    assert "ONCEWARD_PARCELPOST_TOKEN" in command("settings")
    values = {row.name: row.value for row in all_settings(FEATURES.settings, current=Settings())}
    assert values["ONCEWARD_PARCELPOST_DEPOT"] == "north"
    misspelt = unknown_names({"ONCEWARD_PARCELPOST_TOKEN": "x", "ONCEWARD_PARCELPOST_TOKKEN": "x"}, FEATURES.settings)
    assert [(each.name, each.suggestion) for each in misspelt] == [
        ("ONCEWARD_PARCELPOST_TOKKEN", "ONCEWARD_PARCELPOST_TOKEN")
    ]
    check_name("parcelpost.token", custom=False)
    page = command("integrations", "show", "parcelpost")
    assert page.startswith("# Parcel Post\n")
    assert '"par_8Kd02nWq7ZtY5mLc"' in page
    assert "| `ONCEWARD_PARCELPOST_TOKEN` | `parcelpost.token` | Token of Parcel Post. |" in page


async def check_account() -> None:
    async with Simulators() as simulators:
        url = simulators.parcelpost.url
        settings = Settings(simulators={"parcelpost": url}).using(service_settings("parcelpost", token="right"))  # pyright: ignore[reportCallIssue]
        services = Services()
        services.configure(settings)
        assert isinstance(await (await services.parcelpost(None)).check(), Accepted)
        await services.aclose()
        os.environ["ONCEWARD_SIMULATORS"] = f"parcelpost={url}"
        said = await asyncio.to_thread(command, "services", "check", "parcelpost")
        assert said == "Parcel Post accepts the credentials of the installation\n"


async def send_message(url: str) -> None:
    """A message that an app sends arrives at the service, once."""
    db = await Database.open(url, min_size=1, max_size=4)
    app = Onceward("post")
    app.templates(TEMPLATES)
    async with Simulators() as simulators, ServiceClient() as client, GuardedClient() as guarded:
        settings = Settings(simulators={"parcelpost": simulators.parcelpost.url})  # pyright: ignore[reportCallIssue]
        channels = configured_channels(ChannelSetup(settings=settings, client=client, guarded=guarded))
        engine = Engine(db, app.registry)
        Sender(db, [channels["sms"]], engine.templates).install(app.registry)
        options = WorkerOptions(concurrency=1, poll_s=0.1)
        worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx)
        await engine.start()
        await worker.start()
        async with engine.transaction() as tx:
            to = Recipient(phone="+15005550006")
            sent = await tx.send("hello", to=to, channel="sms", key="card:1", data={"name": "Ada"})
        done = "select 1 from onceward.messages where id = $1 and status = 'success'"
        await until(lambda: db.fetchval(done, sent.id))
        (card,) = [each for each in simulators.parcelpost.received if each.path == "/cards"]
        assert json.loads(card.body)["to"] == "+15005550006"
        await worker.stop()
        await engine.stop()
    await db.close()


async def receive(url: str) -> None:
    """A source verifies what `trigger` composes, and keeps the signature and the declared header."""
    db = await Database.open(url, min_size=1, max_size=4)
    here = Office(db, Onceward("post"))
    await here.source("parcelpost", secret="a secret of the tests, long")
    sent = compose(here.configs["parcelpost"], "parcel.sent", path="/webhooks/parcelpost")
    reply = await call(here.inbox, "/webhooks/parcelpost", sent.body, {**sent.headers, "x-parcel-depot": "north"})
    assert reply.status == 200, reply
    row = await db.fetchrow("select type, signature, headers from onceward.webhook_events")
    assert row is not None
    assert (row["type"], row["signature"]) == ("parcel.sent", sent.headers["x-parcel-signature"])
    assert json.loads(sent.body)["data"] == {"weight_g": 450}
    again = compose(here.configs["parcelpost"], "parcel.sent", path="/webhooks/parcelpost")
    assert json.loads(again.body)["id"] != json.loads(sent.body)["id"] != "par_8Kd02nWq7ZtY5mLc"
    assert "x-parcel-depot" in str(row["headers"])
    await db.close()


async def diagnose(url: str) -> None:
    os.environ |= {"ONCEWARD_DATABASE_URL": url, "ONCEWARD_PARCELPOST_TOKKEN": "x"}
    warnings = [each.finding for each in await examine(FEATURES) if "is not a setting" in each.finding]
    assert [text.partition(" ")[0] for text in warnings] == ["ONCEWARD_PARCELPOST_TOKKEN"]


def main(url: str) -> None:
    commands()
    asyncio.run(check_account())
    asyncio.run(receive(url))
    asyncio.run(send_message(url))
    asyncio.run(diagnose(url))


if __name__ == "__main__":
    main(sys.argv[1])
