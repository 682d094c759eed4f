"""The page of queues: depth, age, and buttons to pause and resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done, back
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import ANYTHING, NOTHING
from onceward.work import controls
from onceward.work.statements import QUEUES, WAITING_ORGANIZATIONS
from onceward.work.usage import USED_LATELY

MOST_WAITING = 20
SERVED = "select q as queue, count(*) as workers from onceward.workers k, unnest(k.queues) q group by 1"
IDLE = {"due": 0, "later": 0, "running": 0, "dead": 0, "more": False, "oldest_due_s": None, "paused_at": None}


async def load(view: View) -> dict[str, Any]:
    """Return every queue that has work, a pause or a worker. Counts are exact up to `MOST_COUNTED`, and never read
    more rows."""
    served = {row["queue"]: row["workers"] for row in await view.conn.fetch(SERVED)}
    queues = {row["queue"]: dict(row) for row in await view.conn.fetch(QUEUES, controls.MOST_COUNTED)}
    for name in served.keys() - queues.keys():
        queues[name] = {"queue": name, **IDLE}
    rows = [{**queue, "workers": served.get(name, 0)} for name, queue in sorted(queues.items())]
    waiting = await view.conn.fetch(WAITING_ORGANIZATIONS, MOST_WAITING, controls.MOST_COUNTED)
    used = await view.conn.fetch(USED_LATELY, 24, MOST_WAITING)
    return {"title": "Queues", "queues": rows, "waiting": waiting, "used": used, "most": controls.MOST_COUNTED}


async def _pause(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    queue = _named(form)
    await controls.pause(site.database, queue, actor=identity, reason=form.get("reason", "")[:500])
    return Done(back(form, "/dashboard/queues"), f"Queue {queue} is paused: running work finishes, no new work starts.")


async def _resume(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    queue = _named(form)
    was_paused = await controls.resume(site.database, queue, actor=identity)
    site.engine.waker.wake(queue)
    message = f"Queue {queue} is resumed." if was_paused else f"Queue {queue} was not paused."
    return Done(back(form, "/dashboard/queues"), message)


def _named(form: Mapping[str, str]) -> str:
    queue = form.get("queue", "").strip()[:200]
    if not queue:
        raise ActionRefused("the field queue is empty: name a queue")
    return queue


PAGES = (
    Page(
        name="queues",
        path="/dashboard/queues",
        title="Queues",
        section="queues",
        load=load,
        scope="admin",
        instance=True,
    ),
)
ACTIONS = (
    Action(path="/dashboard/queues/pause", causes=NOTHING, run=_pause, scope="admin", instance=True),
    Action(path="/dashboard/queues/resume", causes=ANYTHING, run=_resume, scope="admin", instance=True),
)
