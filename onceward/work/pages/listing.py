"""The declaration of the list and detail pages of a kind of work. Each package declares its own kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Done
from onceward.windows import Window

if TYPE_CHECKING:
    from onceward.web.dashboard.site import Site

Cancel = Callable[["Site", Identity, int, str], Awaitable[Done]]
"""Cancels the row with this id, for this reason."""

UNFINISHED = ("pending", "scheduled", "retrying", "processing", "dead_letter")

WAITING = """
case when w.dead_reason is not null then 'dead_letter'
     when w.lease is not null then 'processing'
     when w.attempts > 0 then 'retrying'
     when w.sort_at > onceward.now() + interval '1 second' then 'scheduled'
     else 'pending' end"""

LAST = """
left join lateral (
    select a.outcome, a.number, a.finished_at, a.error ->> 'message' as message from onceward.attempts a
     where a.work_id = r.{id} and w.id is null order by a.number desc, a.finished_at desc limit 1
) last on true"""

CONDITIONS = {
    "pending": (
        "w.dead_reason is null and w.lease is null and w.attempts = 0"
        " and w.sort_at <= onceward.now() + interval '1 second'"
    ),
    "scheduled": (
        "w.dead_reason is null and w.lease is null and w.attempts = 0"
        " and w.sort_at > onceward.now() + interval '1 second'"
    ),
    "retrying": "w.dead_reason is null and w.lease is null and w.attempts > 0",
    "processing": "w.lease is not null",
    "dead_letter": "w.dead_reason is not null",
}


UNFINISHED_WINDOW = """
select r.id from onceward.work r where r.id < $1 and r.id >= $2{} order by r.id desc offset $3 - 1 limit 1
"""


@dataclass(frozen=True, slots=True)
class Button:
    """A button on the page of one row. It posts to `path`, with the row's id for `{id}`, and is shown in these
    states."""

    text: str
    path: str
    states: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How a kind of work is listed and shown. Most fields are SQL over the row `r` and its work `w`."""

    slug: str
    noun: str
    table: str
    id: str = "id"
    label: str
    about: str
    key: str
    by_key: str = ""
    """How to find rows by their key, {0}, if comparing the column would cost a join for each row."""
    at: str = "r.created_at"
    ended: str
    """The state of a row that has no unfinished work."""
    attempts: str
    message: str = "null::text"
    joins: str = ""
    states: tuple[str, ...]
    facets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Filters of this kind, by their name in the URL."""
    body: str
    """Columns of the detail page. `body_joins` adds the tables that they need."""
    body_joins: str = ""
    empty: str
    """The text of an empty list: how to create a first row."""
    columns: tuple[str, str, str] = ("Task", "Key", "Created")
    """Column titles of label, key and time."""
    about_title: str = "Tags"
    payload_title: str = "Arguments"
    buttons: tuple[Button, ...] = ()
    steps: str = ""
    """The query for the steps of one row ($1), if the kind has steps."""
    cancel: Cancel | None = None
    """Replaces the action of the cancel button, if cancelling the work is not enough."""

    @property
    def list_name(self) -> str:
        """Return the name under which views of the list are saved."""
        return f"onceward.{self.slug}"

    def listing(self, *, state: str = "", where: str = "") -> str:
        """Return the query of a list page. $1, $2, $3 are upper id, lower id and limit; the arguments of `where`
        follow."""
        unfinished = state in UNFINISHED
        join = "join" if unfinished else "left join"
        # The ids of the work too: the planner may read the unfinished rows of the window rather than all its rows.
        condition = f" and w.id < $1 and w.id >= $2 and {CONDITIONS[state]}" if unfinished else ""
        last = "" if unfinished or "last." not in self.ended + self.attempts + self.message else LAST.format(id=self.id)
        outer = f" where state = '{state}'" if state and not unfinished and state in self.states else ""
        ended, attempts, message = self.ended, self.attempts, self.message
        if not last:
            ended, attempts, message = _without_last(ended), _without_last(attempts), _without_last(message)
        return f"""
select * from (
    select r.{self.id} as id, ({self.label})::text as label, ({self.about})::text as about, ({self.key})::text as key,
           {self.at} as at, r.organization_id, case when w.id is null then ({ended})::text else {WAITING} end as state,
           coalesce({attempts}, w.attempts + (w.dead_reason is not null)::int, 0)::int as attempts,
               ({message})::text as message, w.queue,
           case when w.lease is null and w.dead_reason is null then w.sort_at end as due_at
      from {self.table} r
      {join} onceward.work w on w.id = r.{self.id}
      {last}
      {self.joins}
     where r.{self.id} < $1 and r.{self.id} >= $2{condition}{where}
     order by r.{self.id} desc
) found{outer} order by id desc limit $3"""

    def windows(self, organization: UUID | None, *, state: str = "") -> tuple[Window, ...]:
        """Return what bounds the rows that a page of this list examines: those of the organization, and for unfinished
        work also the work itself, of which there may be less."""
        own = "" if organization is None else " and r.organization_id = $4::uuid"
        args = () if organization is None else (organization,)
        rows = Window(
            f"select r.{self.id} as id from {self.table} r where r.{self.id} < $1 and r.{self.id} >= $2{own}"
            f" order by r.{self.id} desc offset $3 - 1 limit 1",
            args,
        )
        if state in ("dead_letter", "retrying"):
            # These are in an index: by organization, and dead letters for all.
            condition = f" and {CONDITIONS[state].replace('w.', 'r.')}"
            return (Window(UNFINISHED_WINDOW.format(condition + own), args),)
        # A viewer of one organization may not count the work of others.
        return (rows, Window(UNFINISHED_WINDOW.format(""))) if state in UNFINISHED and not args else (rows,)

    def one(self) -> str:
        """Return the query for one row by its id ($1), with its body."""
        return f"""
select r.{self.id} as id, ({self.label})::text as label, ({self.about})::text as about, ({self.key})::text as key,
       {self.at} as at,
       r.organization_id, r.caused_by, case when w.id is null then ({self.ended})::text else {WAITING} end as state,
       coalesce({self.attempts}, w.attempts + (w.dead_reason is not null)::int, 0)::int as attempts, w.queue, w.lane,
           w.unique_key, w.crashes, w.claimed_at,
       w.dead_reason, w.dead_at, w.cancel, case when w.lease is null
       and w.dead_reason is null then w.sort_at end as due_at,
       {self.body}
  from {self.table} r
  left join onceward.work w on w.id = r.{self.id}
  {LAST.format(id=self.id)}
  {self.joins}
  {self.body_joins}
 where r.{self.id} = $1"""


def _without_last(sql: str) -> str:
    return "null" if "last." in sql else sql
