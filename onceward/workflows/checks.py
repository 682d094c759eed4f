"""The invariants of workflows that `onceward verify` checks."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check
from onceward.work.checks import work_has_a_body

UNFINISHED_WITHOUT_WORK = read_statement("workflows", "check_work_of_unfinished")
COMPENSATIONS_NOT_RUN = read_statement("workflows", "check_compensations")


async def check_unfinished_have_work(conn: Connection) -> Sequence[str]:
    """A workflow has a row in `work` exactly as long as it is unfinished."""
    rows = await conn.fetch(UNFINISHED_WITHOUT_WORK)
    return [
        (
            f"workflow {row['id']} ({row['name']}) is {row['state']}, but {'has a' if row['work'] else 'has no'} row "
            f"in onceward.work"
        )
        for row in rows
    ]


async def check_ended_ones_owe_nothing(conn: Connection) -> Sequence[str]:
    """A failed or cancelled workflow has run every compensation that it registered."""
    rows = await conn.fetch(COMPENSATIONS_NOT_RUN)
    return [f"workflow {row['id']} ({row['name']}) ended without running compensation {row['key']}" for row in rows]


async def check_steps_belong_to_a_workflow(conn: Connection) -> Sequence[str]:
    """Every step belongs to an existing workflow."""
    rows = await conn.fetch(
        "select distinct s.workflow_id from onceward.workflow_steps s"
        " where not exists (select from onceward.workflows f where f.id = s.workflow_id) limit 100"
    )
    return [f"workflow {row['workflow_id']} does not exist, but its steps do" for row in rows]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("workflow", "onceward.workflows"),
    Check("workflows.unfinished_have_work", check_unfinished_have_work),
    Check("workflows.ended_ones_owe_nothing", check_ended_ones_owe_nothing),
    Check("workflows.steps_belong_to_a_workflow", check_steps_belong_to_a_workflow),
)
