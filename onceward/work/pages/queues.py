"""The page of queues: depth, age, and buttons to pause and resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done, back
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.work import controls

MOST = 200_000
QUEUES = f"""
with sample as materialized (
    select w.queue, w.lease, w.dead_reason, w.sort_at from onceward.work w limit {MOST}
), depth as (
    select w.queue,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()) as due,
           count(*) filter (where w.lease is null and w.dead_reason is null and w.sort_at > onceward.now()) as later,
           count(*) filter (where w.lease is not null) as running,
           count(*) filter (where w.dead_reason is not null) as dead,
           extract(epoch from onceward.now() - min(w.sort_at) filter (
               where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()))::float8 as oldest_s
      from sample w group by w.queue
), served as (
    select q as queue, count(*) as workers from onceward.workers k, unnest(k.queues) q group by 1
)
select coalesce(d.queue, q.name, s.queue) as name, coalesce(d.due, 0) as due, coalesce(d.later, 0) as later,
       coalesce(d.running, 0) as running, coalesce(d.dead, 0) as dead, d.oldest_s, q.paused_at, q.paused_by,
       coalesce(s.workers, 0) as workers
  from depth d full join onceward.queues q on q.name = d.queue
  full join served s on s.queue = coalesce(d.queue, q.name)
 order by 1
"""


async def load(view: View) -> dict[str, Any]:
    return {"title": "Queues", "queues": await view.conn.fetch(QUEUES)}


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
    Action(path="/dashboard/queues/pause", run=_pause, scope="admin", instance=True),
    Action(path="/dashboard/queues/resume", run=_resume, scope="admin", instance=True),
)
