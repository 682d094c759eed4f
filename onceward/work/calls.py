"""Insert bound calls of any mix of jobs. Consecutive calls of the same job are written by one statement."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from onceward.db import Connection
from onceward.work.enqueuing import Enqueued, Item, insert, insert_alike, item
from onceward.work.job_task import BoundJob

_JOB = attrgetter("job")


async def insert_calls(
    conn: Connection,
    calls: Iterable[BoundJob[Any]],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
) -> list[Enqueued[Any]]:
    """Insert the calls in their order, in the current transaction of the connection."""
    enqueued: list[Enqueued[Any]] = []
    single: list[Item] = []
    for job, group in groupby(calls, key=_JOB):
        arguments = [call.arguments for call in group]
        if len(arguments) == 1:
            single.append(item(job, arguments[0], organization=organization, caused_by=caused_by))
            continue
        if single:
            enqueued += await insert(conn, single)
            single = []
        enqueued += await insert_alike(conn, job, arguments, organization=organization, caused_by=caused_by)
    return enqueued + await insert(conn, single) if single else enqueued
