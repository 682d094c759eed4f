"""Workers in processes of their own, to be killed. The parent has imported everything, so a worker starts quickly.

Each line `DATABASE_URL SMTP_PORT BREVO_URL SLACK_URL` on stdin starts one; `ready PID` on stdout says that it works.
"""

from __future__ import annotations

import asyncio
import os
import signal
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
from tests.child import die_with_parent


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
    print(f"ready {os.getpid()}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets a worker as soon as it has ended
    for line in sys.stdin:
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            url, smtp_port, brevo_url, slack_url = line.split()
            asyncio.run(main(url, int(smtp_port), brevo_url, slack_url))
