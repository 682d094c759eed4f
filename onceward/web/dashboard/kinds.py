"""The kinds of work, and how the rows of each are listed, found and looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNFINISHED = ("pending", "scheduled", "retrying", "processing", "dead_letter")

WAITING = """
case when w.dead_reason is not null then 'dead_letter'
     when w.lease is not null then 'processing'
     when w.attempts > 0 then 'retrying'
     when w.sort_at > onceward.now() + interval '1 second' then 'scheduled'
     else 'pending' end"""

LAST = """
left join lateral (
    select a.outcome, a.number, a.finished_at, a.error ->> 'message' as said from onceward.attempts a
     where a.work_id = r.{id} and w.id is null order by a.finished_at desc limit 1
) last on true"""

CONDITIONS = {
    "pending": "w.dead_reason is null and w.lease is null and w.attempts = 0 and w.sort_at <= onceward.now() + interval '1 second'",
    "scheduled": "w.dead_reason is null and w.lease is null and w.attempts = 0 and w.sort_at > onceward.now() + interval '1 second'",
    "retrying": "w.dead_reason is null and w.lease is null and w.attempts > 0",
    "processing": "w.lease is not null",
    "dead_letter": "w.dead_reason is not null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All but the first three are SQL over the row `r` and its work `w`."""

    slug: str
    noun: str
    table: str
    id: str = "id"
    label: str
    about: str
    key: str
    at: str = "r.created_at"
    ended: str
    """The state once no work is left."""
    attempts: str
    said: str = "null::text"
    joins: str = ""
    states: tuple[str, ...]
    facets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Filters of this kind alone, by their name in the address."""
    body: str
    """Columns of the detail page, and the tables that only it needs."""
    body_joins: str = ""
    empty: str
    """What to do when there are none yet."""

    def listing(self, *, state: str = "", where: str = "") -> str:
        """Takes upper id, lower id and limit as $1, $2, $3; what `where` needs follows."""
        unfinished = state in UNFINISHED
        join = "join" if unfinished else "left join"
        condition = f" and {CONDITIONS[state]}" if unfinished else ""
        last = "" if unfinished or "last." not in self.ended + self.attempts + self.said else LAST.format(id=self.id)
        outer = f" where state = '{state}'" if state and not unfinished and state in self.states else ""
        ended, attempts, said = self.ended, self.attempts, self.said
        if not last:
            ended, attempts, said = _without_last(ended), _without_last(attempts), _without_last(said)
        return f"""
select * from (
    select r.{self.id} as id, ({self.label})::text as label, ({self.about})::text as about, ({self.key})::text as key,
           {self.at} as at, r.organization_id, case when w.id is null then ({ended})::text else {WAITING} end as state,
           coalesce({attempts}, w.attempts + (w.dead_reason is not null)::int, 0)::int as attempts, ({said})::text as said, w.queue,
           case when w.lease is null and w.dead_reason is null then w.sort_at end as due_at
      from {self.table} r
      {join} onceward.work w on w.id = r.{self.id}
      {last}
      {self.joins}
     where r.{self.id} < $1 and r.{self.id} >= $2{condition}{where}
     order by r.{self.id} desc
) found{outer} order by id desc limit $3"""

    def one(self) -> str:
        """One row by its id ($1), with its body."""
        return f"""
select r.{self.id} as id, ({self.label})::text as label, ({self.about})::text as about, ({self.key})::text as key, {self.at} as at,
       r.organization_id, r.caused_by, case when w.id is null then ({self.ended})::text else {WAITING} end as state,
       coalesce({self.attempts}, w.attempts + (w.dead_reason is not null)::int, 0)::int as attempts, w.queue, w.lane, w.unique_key, w.crashes, w.claimed_at,
       w.dead_reason, w.dead_at, w.cancel, case when w.lease is null and w.dead_reason is null then w.sort_at end as due_at,
       {self.body}
  from {self.table} r
  left join onceward.work w on w.id = r.{self.id}
  {LAST.format(id=self.id)}
  {self.joins}
  {self.body_joins}
 where r.{self.id} = $1"""


def _without_last(sql: str) -> str:
    return "null" if "last." in sql else sql


JOBS = Kind(
    slug="jobs",
    noun="job",
    table="onceward.jobs",
    label="r.task",
    about="array_to_string(r.tags, ', ')",
    key="w.unique_key",
    ended="coalesce(last.outcome, 'unknown')",
    attempts="last.number",
    said="last.said",
    states=(*UNFINISHED, "success", "failed", "cancelled", "discarded"),
    facets={"label": "r.task = {0}", "queue": "w.queue = {0}"},
    body="r.args as payload",
    empty="Enqueue one: await tx.enqueue(my_job, ...) in a handler, or select onceward.enqueue('my_job', '{}') in SQL.",
)
EVENTS = Kind(
    slug="events",
    noun="event",
    table="onceward.webhook_events",
    id="seq",
    label="r.type",
    about="r.provider",
    key="r.event_id",
    at="r.received_at",
    ended="r.status",
    attempts="r.attempts",
    said="r.error",
    states=(*UNFINISHED, "success", "failed"),
    facets={"label": "r.type = {0}", "about": "r.provider = {0}"},
    body="r.payload, r.headers, r.result, r.id as uuid, r.webhook_id, r.origin",
    empty="Send one: `onceward trigger stripe charge.succeeded` posts a correctly signed test webhook.",
)
MESSAGES = Kind(
    slug="messages",
    noun="message",
    table="onceward.messages",
    label="r.template",
    about="r.channel",
    key="r.key",
    ended="r.status",
    attempts="r.attempts",
    said="r.reason",
    states=(*UNFINISHED, "success", "cancelled", "unknown"),
    facets={"label": "r.template = {0}", "about": "r.channel = {0}"},
    body="r.data as payload, r.recipient, r.address, r.locale, r.scheduled_for, r.sent_at, r.category, r.version, r.reason",
    empty="Send one from a handler: await tx.send('order-confirmation', to=user, key=..., data={...}).",
)
DELIVERIES = Kind(
    slug="deliveries",
    noun="delivery",
    table="onceward.deliveries",
    label="r.type",
    about="t.url",
    key="r.response_status",
    ended="r.status",
    attempts="r.attempts",
    said="r.error",
    joins="left join onceward.endpoints t on t.endpoint_id = r.endpoint_id",
    states=(*UNFINISHED, "success", "failed", "cancelled"),
    facets={"label": "r.type = {0}", "endpoint": "r.endpoint_id = {0}::uuid"},
    body="r.endpoint_id, r.response_status, p.message_id, convert_from(p.body, 'UTF8') as text, t.url",
    body_joins="left join onceward.published p on p.id = r.caused_by",
    empty="Register an endpoint, then publish: await tx.publish('checkout.completed', {...}).",
)
WORKFLOWS = Kind(
    slug="workflows",
    noun="workflow",
    table="onceward.workflows",
    label="r.name",
    about="r.version",
    key="r.key",
    ended="r.state",
    attempts="null::int",
    said="r.error ->> 'message'",
    states=(*UNFINISHED, "success", "failed", "cancelled", "continued"),
    facets={"label": "r.name = {0}"},
    body="r.args as payload, r.result, r.error, r.finished_at, r.parent_id, r.attributes",
    empty="Start one from a handler: await tx.start_workflow(my_workflow, ...).",
)

KINDS: dict[str, Kind] = {kind.slug: kind for kind in (EVENTS, JOBS, MESSAGES, DELIVERIES, WORKFLOWS)}
BY_NOUN: dict[str, Kind] = {kind.noun: kind for kind in KINDS.values()}
PATHS = {kind.noun: f"/dashboard/{kind.slug}" for kind in KINDS.values()}
