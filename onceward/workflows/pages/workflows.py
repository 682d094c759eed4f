"""The list page and the detail page of workflows."""

from __future__ import annotations

from collections.abc import Mapping

from onceward.feature import unique_key
from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Hit, Pages
from onceward.web.dashboard.page import Missing, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import ANYTHING
from onceward.work.pages.kinds import work_pages
from onceward.work.pages.listing import UNFINISHED, Button, Listing
from onceward.workflows import operate
from onceward.workflows.errors import WorkflowState

STEPS = read_statement("workflows", "list_steps_page")
BY_KEY = f"""
select r.id from onceward.workflows r
 where r.key is not null and {unique_key().where} order by r.id desc limit 20
"""


async def _cancel(site: Site, identity: Identity, id: int, reason: str) -> Done:
    """Cancel the workflow. Its compensations undo its steps."""
    try:
        outcome = await operate.cancel(
            site.database, id, actor=identity, reason=reason, organization=identity.organization
        )
    except WorkflowState as error:
        raise ActionRefused(str(error)) from None
    site.engine.waker.wake("workflows")
    texts = {"cancelled": "is cancelled", "asked": "is stopping", "compensating": "is running its compensations"}
    return Done(f"/dashboard/workflows/{id}", f"Workflow {id} {texts.get(outcome, outcome)}.")


async def _retry(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    id = form["id"]
    if not id.isdigit() or len(id) > 18:
        raise Missing(f"there is no workflow {id}")
    try:
        await operate.retry(
            site.database, int(id), actor=identity, reason="retried from its page", organization=identity.organization
        )
    except WorkflowState as error:
        raise ActionRefused(str(error)) from None
    site.engine.waker.wake("workflows")
    return Done(f"/dashboard/workflows/{id}", f"Workflow {id} retries its failed steps.")


WORKFLOWS = Listing(
    slug="workflows",
    noun="workflow",
    table="onceward.workflows",
    label="r.name",
    about="r.version",
    key="r.key",
    ended="r.state",
    attempts="null::int",
    message="r.error ->> 'message'",
    states=(*UNFINISHED, "success", "failed", "cancelled", "continued"),
    facets={"label": "r.name = {0}"},
    body="r.args as payload, r.result, r.error, r.finished_at, r.parent_id, r.attributes",
    empty="Start one from a handler: await tx.start_workflow(my_workflow, ...).",
    columns=("Workflow", "Key", "Created"),
    about_title="Version",
    buttons=(Button("Retry failed steps", "/dashboard/workflows/{id}/retry", frozenset({"failed"})),),
    steps=STEPS,
    cancel=_cancel,
)


async def find_by_key(view: View, name: str) -> list[Hit]:
    """Find workflows by their key: one probe of the index for each organization."""
    return [Hit("workflow", row["id"]) for row in await view.conn.fetch(BY_KEY, name)]


PAGES = work_pages(WORKFLOWS, key="w", order=50, finders=(find_by_key,)) + Pages(
    actions=(Action(path="/dashboard/workflows/{id}/retry", causes=ANYTHING, run=_retry),)
)
