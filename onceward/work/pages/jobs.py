"""The pages of jobs."""

from __future__ import annotations

from onceward.feature import NOBODY, OWNERS
from onceward.work.pages.kinds import find_by_unique_key, work_pages
from onceward.work.pages.listing import UNFINISHED, Listing

JOBS = Listing(
    slug="jobs",
    noun="job",
    table="onceward.jobs",
    label="r.task",
    about="array_to_string(r.tags, ', ')",
    key="w.unique_key",
    by_key=f"r.id in (select k.id from onceward.work k where coalesce(k.organization_id, {NOBODY}) = any({OWNERS})"
    " and k.unique_key = {0} and k.dead_reason is null)",
    ended="coalesce(last.outcome, 'unknown')",
    attempts="last.number",
    message="last.message",
    states=(*UNFINISHED, "success", "failed", "cancelled", "discarded"),
    facets={"label": "r.task = {0}", "queue": "w.queue = {0}"},
    body="r.args as payload",
    empty="Enqueue one: await tx.enqueue(my_job, ...) in a handler, or select onceward.enqueue('my_job', '{}') in SQL.",
    columns=("Task", "Unique key", "Created"),
)

PAGES = work_pages(JOBS, key="j", order=20, finders=(find_by_unique_key,))
