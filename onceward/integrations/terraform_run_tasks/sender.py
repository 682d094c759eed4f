"""HCP Terraform run tasks: `X-TFC-Task-Signature`, hexadecimal HMAC-SHA512 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="HCP Terraform run tasks",
    verification=Hmac(header="x-tfc-task-signature", algorithm="sha512"),
    events=Events(id="task_result_id", type="stage", ordering="run_id", strict=True),
    setup=(
        "Under Settings, Run tasks, create a task with the URL of the source and an HMAC key: it is the secret of "
        "the source."
    ),
    failure="The run waits for your `PATCH` to `task_result_callback_url`.",
    notes=(
        "The body contains an access token of ten minutes: keep bodies only as long as you need them "
        "(`--retention-days`)."
    ),
    facts=("hashicorp/web-unified-docs run-tasks-integration.mdx (signature)",),
    unconfirmed=(
        "the fields `task_result_id` and `stage`",
        "retries",
    ),
)
