"""A worker in a process of its own, to be killed: `python -m tests.messages.sending_process DATABASE_URL SMTP_PORT BREVO_URL
SLACK_URL`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.http import ServiceClient
from onceward.integrations.brevo import Brevo
from onceward.integrations.brevo.channel import BrevoChannel
from onceward.integrations.slack import SlackWebhook
from onceward.integrations.slack.channel import SlackWebhookChannel
from onceward.integrations.smtp.channel import SmtpChannel
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.messages import Sender
from onceward.work import Worker, WorkerOptions


async def main(url: str, smtp_port: int, brevo_url: str, slack_url: str) -> None:
    db = await Database.open(url, max_size=8)
    app = Onceward("t")
    app.templates(Path(__file__).parent / "templates")
    engine = Engine(db, app.registry)
    client = ServiceClient()
    if smtp_port:
        relay = Relay("127.0.0.1", smtp_port, encryption="none", max_connections=2)
        mail = SmtpChannel(Smtp(relay), sender="t@example.org")
    else:
        mail = BrevoChannel(Brevo(client, "xkeysib-1", base_url=brevo_url), sender="t@example.org")
    channels = [mail, SlackWebhookChannel(SlackWebhook(client, slack_url))]
    Sender(db, channels, engine.templates).install(app.registry)
    options = WorkerOptions(concurrency=8, poll_s=0.1, beat_s=0.1, observe_s=0.2, settle_s=0.0)
    await engine.start()
    await Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
